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

export interface DynamicProviderOptions {
  /** The program's directory, from which the process resolves packages. */
  directory: string;
  project: string;
  configuration: Readonly<Record<string, string>>;
  environment: NodeJS.ProcessEnv;
  /** Called with each line that the process prints. */
  onLine: (line: string) => void;
}

/** Runs Pulumi's own process for dynamic resources and calls it. */
export class DynamicProviderProcess implements ResourceProvider {
  readonly #child: ChildProcess;
  readonly #client: InstanceType<typeof providerGrpc.ResourceProviderClient>;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.#client = new providerGrpc.ResourceProviderClient(`127.0.0.1:${port}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
    });
  }

  static async start(options: DynamicProviderOptions): Promise<DynamicProviderProcess> {
    const { directory, project, environment, configuration, onLine } = options;
    const program = createRequire(join(directory, "package.json")).resolve("@pulumi/pulumi/cmd/dynamic-provider");
    const { child, port } = await startPulumiProcess({
      what: "the process for dynamic resources",
      program: [program, "127.0.0.1:0"],
      directory,
      onLine,
      environment: { ...environment, PULUMI_NODEJS_PROJECT: project, PULUMI_PROJECT: project },
    });
    const started = new DynamicProviderProcess(child, port);
    const request = new provider.ConfigureRequest();
    request.setArgs(struct.Struct.fromJavaScript({ ...configuration }));
    await answer((done) => started.#client.configure(request, done));
    return started;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async check(olds: Values, news: Values): Promise<Values> {
    const request = new provider.CheckRequest();
    request.setOlds(toStruct(olds));
    request.setNews(toStruct(news));
    const response = await answer<InstanceType<typeof provider.CheckResponse>>((done) =>
      this.#client.check(request, done),
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
    const response = await answer<InstanceType<typeof provider.DiffResponse>>((done) =>
      this.#client.diff(request, done),
    );
    const changes = response.getChanges() !== provider.DiffResponse.DiffChanges.DIFF_NONE;
    const replaces = response.getReplacesList();
    return { changes, replaces, deleteBeforeReplace: response.getDeletebeforereplace() };
  }

  async create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    const request = new provider.CreateRequest();
    request.setProperties(toStruct(inputs));
    const response = await answer<InstanceType<typeof provider.CreateResponse>>((done) =>
      this.#client.create(request, done),
    );
    return { id: response.getId(), outputs: toValues(response.getProperties()) };
  }

  async update(id: string, old: Values, news: Values): Promise<Values> {
    const request = new provider.UpdateRequest();
    request.setId(id);
    request.setOlds(toStruct(old));
    request.setNews(toStruct(news));
    const response = await answer<InstanceType<typeof provider.UpdateResponse>>((done) =>
      this.#client.update(request, done),
    );
    return toValues(response.getProperties());
  }

  async read(id: string, outputs: Values): Promise<Values | undefined> {
    const request = new provider.ReadRequest();
    request.setId(id);
    request.setProperties(toStruct(outputs));
    const response = await answer<InstanceType<typeof provider.ReadResponse>>((done) =>
      this.#client.read(request, done),
    );
    return response.getId() === "" ? undefined : toValues(response.getProperties());
  }

  async delete(id: string, outputs: Values): Promise<void> {
    const request = new provider.DeleteRequest();
    request.setId(id);
    request.setProperties(toStruct(outputs));
    await answer((done) => this.#client.delete(request, done));
  }

  /** Cancels, as the engine does on Ctrl-C while operations are in progress. */
  async cancel(): Promise<void> {
    await answer((done) => this.#client.cancel(new empty.Empty(), done));
  }

  async stop(): Promise<void> {
    this.#client.close();
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGTERM");
    await once(this.#child, "exit");
  }
}

type Done<T> = (error: ServiceError | null, response: T) => void;

/** @throws InitError, or an Error with the message that the provider threw; its cause has the gRPC code */
function answer<T>(call: (done: Done<T>) => unknown): Promise<T> {
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

function toStruct(values: Values): InstanceType<typeof struct.Struct> {
  return struct.Struct.fromJavaScript(values as Parameters<typeof struct.Struct.fromJavaScript>[0]);
}

function toValues(found: InstanceType<typeof struct.Struct> | undefined): Values {
  return found?.toJavaScript() ?? {};
}

/** Starts Pulumi's process for dynamic resources on the first call, because many programs have no such resources. */
export class DynamicProviderOnDemand implements ResourceProvider {
  readonly #options: DynamicProviderOptions;
  #started: Promise<DynamicProviderProcess> | undefined;

  constructor(options: DynamicProviderOptions) {
    this.#options = options;
  }

  async check(olds: Values, news: Values): Promise<Values> {
    return (await this.#process()).check(olds, news);
  }

  async diff(id: string, old: { outputs: Values }, news: Values): Promise<Difference> {
    return (await this.#process()).diff(id, old, news);
  }

  async create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    return (await this.#process()).create(inputs);
  }

  async update(id: string, old: Values, news: Values): Promise<Values> {
    return (await this.#process()).update(id, old, news);
  }

  async read(id: string, outputs: Values): Promise<Values | undefined> {
    return (await this.#process()).read(id, outputs);
  }

  async delete(id: string, outputs: Values): Promise<void> {
    return (await this.#process()).delete(id, outputs);
  }

  async cancel(): Promise<void> {
    await (await this.#started)?.cancel();
  }

  /** Kills the process in the middle of an operation. */
  async kill(): Promise<void> {
    process.kill((await this.#process()).pid, "SIGKILL");
  }

  async stop(): Promise<void> {
    // The caller of the first operation already received the error of a failed start.
    await this.#started?.then(
      (process) => process.stop(),
      () => undefined,
    );
  }

  #process(): Promise<DynamicProviderProcess> {
    return (this.#started ??= DynamicProviderProcess.start(this.#options));
  }
}
