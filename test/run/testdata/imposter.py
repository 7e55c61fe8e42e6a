# A toolguardd's socket with something else behind it: it closes every connection, answers nonsense or HTTP with nonsense, or never answers.
import os, signal, socket, sys

path, does = sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.bind(path)
os.chmod(path, 0o666)
server.listen()
if os.fork():
    os._exit(0)
for fd in range(3):
    os.close(fd)
signal.alarm(30)
connections = []
while True:
    connection, _ = server.accept()
    if does == "waits":
        connections.append(connection)
        continue
    connection.recv(1 << 16)
    if does == "nonsense":
        connection.send(bytes(range(256)) * 20)
    if does == "http":
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{nonsense")
    connection.close()
