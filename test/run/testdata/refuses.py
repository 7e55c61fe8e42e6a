# A toolguardd that says that it can make sessions, and makes none.
import http.server, os, socket, sys

path = sys.argv[1]


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, text):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer(200, b"{}")

    def do_POST(self):
        self.answer(503, b'{"error": "it makes none"}')

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
        os._exit(0)  # whoever had to ask has asked


server = Server(path, Handler)
os.chmod(path, 0o666)
if os.fork():
    os._exit(0)
server.timeout = 30
while True:
    server.handle_request()
