import {
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  Server,
  type ServiceDefinition,
  status,
} from "@grpc/grpc-js";

/**
 * A gRPC service for tests of the gateway. Its messages are plain text, which gRPC allows, so it needs no generated code:
 * - `Say` answers with the message and the metadata `x-asked`, and sets a header and a trailer. `fail` ends with a status.
 * - `Count` streams the numbers up to that of the message. `forever` streams until the client cancels.
 * - `Add` answers with how many messages and bytes it got. `Echo` answers each message immediately.
 * - `Canceled` answers with how many calls of `Count` were canceled.
 */
export const grpcService = {
  Say: method("Say"),
  Count: method("Count", { responseStream: true }),
  Add: method("Add", { requestStream: true }),
  Echo: method("Echo", { requestStream: true, responseStream: true }),
  Canceled: method("Canceled"),
} satisfies ServiceDefinition;

export function grpcServer(): Server {
  let canceled = 0;
  const server = new Server({ "grpc.max_receive_message_length": -1 });
  server.addService(grpcService, {
    Say: say,
    Count: counting(() => canceled++),
    Add: add,
    Echo: echo,
    Canceled: ((_, done) => {
      done(null, String(canceled));
    }) satisfies handleUnaryCall<string, string>,
  });
  return server;
}

const say: handleUnaryCall<string, string> = (call, done) => {
  const [trailer, header] = [new Metadata(), new Metadata()];
  trailer.set("x-trailer", "last");
  header.set("x-header", "first");
  call.sendMetadata(header);
  if (call.request === "fail") done({ code: status.FAILED_PRECONDITION, details: "ä 100%", metadata: trailer });
  else done(null, `${call.request} ${String(call.metadata.get("x-asked")[0] ?? "")}`, trailer);
};

function counting(onCanceled: () => void): handleServerStreamingCall<string, string> {
  return (call) => {
    call.once("cancelled", onCanceled);
    const last = call.request === "forever" ? Infinity : Number(call.request);
    let next = 1;
    const more = (): void => {
      while (next <= last && !call.cancelled) {
        if (call.write(String(next++))) continue;
        call.once("drain", more);
        return;
      }
      call.end();
    };
    more();
  };
}

const add: handleClientStreamingCall<string, string> = (call, done) => {
  let [messages, bytes] = [0, 0];
  call.on("data", (message: string) => {
    messages++;
    bytes += message.length;
  });
  call.on("end", () => {
    done(null, `${messages} ${bytes}`);
  });
};

const echo: handleBidiStreamingCall<string, string> = (call) => {
  call.on("data", (message: string) => call.write(`echo ${message}`));
  call.on("end", () => {
    call.end();
  });
};

function method(
  name: string,
  { requestStream = false, responseStream = false }: { requestStream?: boolean; responseStream?: boolean } = {},
): MethodDefinition<string, string> {
  const [serialize, deserialize] = [(text: string) => Buffer.from(text), (bytes: Buffer) => bytes.toString()];
  return {
    path: `/ramet.test.Service/${name}`,
    requestStream,
    responseStream,
    requestSerialize: serialize,
    requestDeserialize: deserialize,
    responseSerialize: serialize,
    responseDeserialize: deserialize,
  };
}
