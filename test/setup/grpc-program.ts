import {
  type CallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  makeGenericClientConstructor,
  type Metadata,
  type requestCallback,
} from "@grpc/grpc-js";
import { build } from "esbuild";
import { grpcService } from "./grpc-service.ts";

/** A client of the service of `grpcServer`. */
export interface GrpcClient extends Client {
  Say(message: string, metadata: Metadata, done: requestCallback<string>): ClientUnaryCall;
  Canceled(message: string, metadata: Metadata, done: requestCallback<string>): ClientUnaryCall;
  Count(message: string, metadata: Metadata, options?: CallOptions): ClientReadableStream<string>;
  Add(metadata: Metadata, done: requestCallback<string>): ClientWritableStream<string>;
  Echo(metadata: Metadata): ClientDuplexStream<string, string>;
}

export function grpcClient(address: string, channel: ChannelCredentials, options: ChannelOptions = {}): GrpcClient {
  const service = makeGenericClientConstructor(grpcService, "Service");
  return new service(address, channel, options) as unknown as GrpcClient;
}

/** The server as one file for Node. Its argument is the port on 127.0.0.1. */
export async function bundledGrpcServer(): Promise<Buffer> {
  const { outputFiles } = await build({
    stdin: {
      contents: `import { grpcServer } from "./grpc-service.ts";
import { ServerCredentials } from "@grpc/grpc-js";
grpcServer().bindAsync("127.0.0.1:" + process.argv[2], ServerCredentials.createInsecure(), (error) => { if (error) throw error; });`,
      resolveDir: import.meta.dirname,
      loader: "ts",
    },
    bundle: true,
    platform: "node",
    format: "cjs",
    write: false,
  });
  return Buffer.from(outputFiles[0]?.contents ?? []);
}
