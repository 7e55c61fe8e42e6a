# A toolguardd that creates no sessions. With MAKES=thread it creates sessions and adopts no thread, with MAKES=nothing it adopts
# threads and confines nothing.
import http.server, os, socket, sys

path, makes = sys.argv[1], os.environ.get("MAKES")


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, text):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer(200, b'{"protocol": 2}')  # api.Protocol

    def do_POST(self):
        if makes:
            self.answer(200, b'{"id": "0000000000000001"}')
        else:
            self.answer(503, b'{"error": "it creates none"}')

    def do_PUT(self):
        if makes == "nothing":
            self.answer(200, b"{}")
        else:
            self.answer(409, b'{"error": "it adopts no thread"}')

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass


class Server(http.server.HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "toolguardd", 0

    def handle_timeout(self):
        os._exit(0)  # all clients have connected by now


server = Server(path, Handler)
os.chmod(path, 0o666)
if os.fork():
    os._exit(0)
server.timeout = 30
while True:
    server.handle_request()
