import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import providerGrpc from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import status from "@pulumi/pulumi/proto/status_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { startPulumiProcess } from "./pulumi-process.ts";
import { type Difference, InitError, type ResourceProvider } from "./resource-provider.ts";
import type { Values } from "./values.ts";

interface DynamicProviderOptions {
  /** The program's directory, from which the process resolves packages. */
  directory: string;
  project: string;
  configuration: Readonly<Record<string, string>>;
  environment: NodeJS.ProcessEnv;
  /** Called with each line that the process prints. */
  onLine: (line: string) => void;
}

type Client = InstanceType<typeof providerGrpc.ResourceProviderClient>;

/** Runs Pulumi's own process for dynamic resources and calls it. It starts on the first call: many programs have no such resources. */
export class DynamicProviderProcess implements ResourceProvider {
  readonly #options: DynamicProviderOptions;
  #started: Promise<{ child: ChildProcess; client: Client }> | undefined;

  constructor(options: DynamicProviderOptions) {
    this.#options = options;
  }

  async check(olds: Values, news: Values): Promise<Values> {
    const request = new provider.CheckRequest();
    request.setOlds(toStruct(olds));
    request.setNews(toStruct(news));
    const response = await this.#call<InstanceType<typeof provider.CheckResponse>>((client, done) =>
      client.check(request, done),
    );
    const failures = response.getFailuresList().map((one) => `${one.getProperty()}: ${one.getReason()}`);
    if (failures.length > 0) throw new Error(failures.join("\n"));
    return toValues(response.getInputs());
  }

  async diff(id: string, old: { outputs: Values }, news: Values): Promise<Difference> {
    const request = new provider.DiffRequest();
    request.setId(id);
    request.setOlds(toStruct(old.outputs));
    request.setNews(toStruct(news));
    const response = await this.#call<InstanceType<typeof provider.DiffResponse>>((client, done) =>
      client.diff(request, done),
    );
    const changes = response.getChanges() !== provider.DiffResponse.DiffChanges.DIFF_NONE;
    const replaces = response.getReplacesList();
    return { changes, replaces, deleteBeforeReplace: response.getDeletebeforereplace() };
  }

  async create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    const request = new provider.CreateRequest();
    request.setProperties(toStruct(inputs));
    const response = await this.#call<InstanceType<typeof provider.CreateResponse>>((client, done) =>
      client.create(request, done),
    );
    return { id: response.getId(), outputs: toValues(response.getProperties()) };
  }

  async update(id: string, old: Values, news: Values): Promise<Values> {
    const request = new provider.UpdateRequest();
    request.setId(id);
    request.setOlds(toStruct(old));
    request.setNews(toStruct(news));
    const response = await this.#call<InstanceType<typeof provider.UpdateResponse>>((client, done) =>
      client.update(request, done),
    );
    return toValues(response.getProperties());
  }

  async read(id: string, outputs: Values): Promise<Values | undefined> {
    const request = new provider.ReadRequest();
    request.setId(id);
    request.setProperties(toStruct(outputs));
    const response = await this.#call<InstanceType<typeof provider.ReadResponse>>((client, done) =>
      client.read(request, done),
    );
    return response.getId() === "" ? undefined : toValues(response.getProperties());
  }

  async delete(id: string, outputs: Values): Promise<void> {
    const request = new provider.DeleteRequest();
    request.setId(id);
    request.setProperties(toStruct(outputs));
    await this.#call((client, done) => client.delete(request, done));
  }

  /** Cancels, as the engine does on Ctrl-C while operations are in progress. */
  async cancel(): Promise<void> {
    if (this.#started !== undefined) await this.#call((client, done) => client.cancel(new empty.Empty(), done));
  }

  /** Kills the process in the middle of an operation. */
  async kill(): Promise<void> {
    (await this.#start()).child.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    // The caller of the first operation already received the error of a failed start.
    const started = await this.#started?.catch(() => undefined);
    if (started === undefined) return;
    const { child, client } = started;
    client.close();
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  }

  async #call<T>(call: (client: Client, done: Done<T>) => unknown): Promise<T> {
    const { client } = await this.#start();
    return answer((done) => call(client, done));
  }

  #start(): ReturnType<typeof startProvider> {
    return (this.#started ??= startProvider(this.#options));
  }
}

async function startProvider({ directory, project, environment, configuration, onLine }: DynamicProviderOptions) {
  const program = createRequire(join(directory, "package.json")).resolve("@pulumi/pulumi/cmd/dynamic-provider");
  const { child, port } = await startPulumiProcess({
    what: "the process for dynamic resources",
    program: [program, "127.0.0.1:0"],
    directory,
    onLine,
    environment: { ...environment, PULUMI_NODEJS_PROJECT: project, PULUMI_PROJECT: project },
  });
  const client = new providerGrpc.ResourceProviderClient(`127.0.0.1:${port}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const request = new provider.ConfigureRequest();
  request.setArgs(struct.Struct.fromJavaScript({ ...configuration }));
  await answer((done) => client.configure(request, done));
  return { child, client };
}

export type Done<T> = (error: ServiceError | null, response: T) => void;

/** @throws InitError, or an Error with the message that the provider threw; its cause has the gRPC code */
export function answer<T>(call: (done: Done<T>) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, response) => {
      if (error === null) resolve(response);
      else reject(initErrorOf(error) ?? new Error(error.details, { cause: error }));
    });
  });
}

/** Reads the details that Pulumi's process adds to the metadata of its response. */
function initErrorOf(error: ServiceError): InitError | undefined {
  const [bytes] = error.metadata instanceof Metadata ? error.metadata.get("grpc-status-details-bin") : [];
  if (!Buffer.isBuffer(bytes)) return undefined;
  const [detail] = status.Status.deserializeBinary(bytes).getDetailsList();
  if (detail === undefined) return undefined;
  const failed = provider.ErrorResourceInitFailed.deserializeBinary(detail.getValue_asU8());
  const outputs = toValues(failed.getProperties());
  return new InitError(error.details, { id: failed.getId(), outputs, reasons: failed.getReasonsList() });
}

export function toStruct(values: Values): InstanceType<typeof struct.Struct> {
  return struct.Struct.fromJavaScript(values as Parameters<typeof struct.Struct.fromJavaScript>[0]);
}

export function toValues(found: InstanceType<typeof struct.Struct> | undefined): Values {
  return found?.toJavaScript() ?? {};
}
