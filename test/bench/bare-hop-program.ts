import { Agent, createServer, request } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";

/**
 * The program of `startBareHop`: a proxy that does nothing but copy, as little as Node can do. It authorizes nothing, limits nothing
 * and handles no error, so it replaces no part of Ramet.
 */
const [kind = "", host = "", port = ""] = process.argv.slice(2);

const agent = new Agent({ keepAlive: true });

const server =
  kind === "http"
    ? createServer((incoming, outgoing) => {
        const { method, url: path, headers } = incoming;
        const options = { agent, host, port: Number(port), method, path, headers };
        incoming.pipe(
          request(options, (answer) => {
            outgoing.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
            answer.pipe(outgoing);
          }),
        );
      })
    : createTcpServer({ noDelay: true }, (outer) => {
        const inner = connect({ host, port: Number(port), noDelay: true });
        outer.pipe(inner).pipe(outer);
        for (const socket of [outer, inner]) socket.on("error", () => undefined);
      });

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
