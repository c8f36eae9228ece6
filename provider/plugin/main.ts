import { connectivityState, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import engineGrpc from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engine from "@pulumi/pulumi/proto/engine_pb.js";
import providerGrpc from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import { visible } from "../../src/base/visible.ts";
import { ProviderOperations } from "./operations.ts";
import { providerService } from "./service.ts";

/** The largest message: a recipe has at most a few megabytes. */
const mostBytes = 64 * 1024 * 1024;
/** The time for what is in progress when the engine has gone. It continues in the cluster. */
const lingerMilliseconds = 5_000;

/**
 * The process of the provider: `pulumi-resource-ramet ENGINE_ADDRESS`. Prints its port, as the engine expects, and ends when the
 * engine does.
 */
function main(): void {
  const link = new EngineLink(end);
  const operations = new ProviderOperations((line, urn) => {
    link.log(visible(line), urn);
  });
  const server = new Server({ "grpc.max_receive_message_length": mostBytes, "grpc.max_send_message_length": -1 });
  server.addService(providerGrpc.ResourceProviderService, providerService(operations, link));
  server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
    if (error !== null) throw error;
    process.stdout.write(`${port}\n`);
    const address = process.argv.slice(2).findLast((argument) => /^[^-].*:\d+$/.test(argument));
    if (address !== undefined) link.attach(address);
  });

  function end(): void {
    operations.cancel();
    const force = setTimeout(() => process.exit(1), lingerMilliseconds);
    server.tryShutdown(() => {
      clearTimeout(force);
      process.exit(0);
    });
  }
}

/** The connection to the engine, which shows messages beside their resources. */
class EngineLink {
  readonly #onGone: () => void;
  #client: InstanceType<typeof engineGrpc.EngineClient> | undefined;
  /** Of the engine. Empty until it is known. */
  address = "";

  constructor(onGone: () => void) {
    this.#onGone = onGone;
  }

  attach(address: string): void {
    if (this.#client !== undefined || address === "") return;
    this.address = address;
    this.#client = new engineGrpc.EngineClient(address, credentials.createInsecure());
    this.#watch();
  }

  /** Reports a line of progress. Without an engine, prints it. */
  log(line: string, urn: string): void {
    if (this.#client === undefined) process.stdout.write(`${line}\n`);
    const request = new engine.LogRequest().setSeverity(engine.LogSeverity.INFO).setMessage(line).setUrn(urn);
    // A line that the engine does not get is lost, as its state is in the cluster.
    this.#client?.log(request, () => undefined);
  }

  #watch(): void {
    const channel = this.#client?.getChannel();
    if (channel === undefined) return;
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.TRANSIENT_FAILURE) this.#onGone();
    else {
      channel.watchConnectivityState(state, Infinity, () => {
        this.#watch();
      });
    }
  }
}

main();
