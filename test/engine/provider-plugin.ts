import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import {
  credentials,
  Server,
  ServerCredentials,
  type ServiceError,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import engineGrpc from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engine from "@pulumi/pulumi/proto/engine_pb.js";
import providerGrpc from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import type { Registered } from "./deployment.ts";
import { answer, toStruct, toValues } from "./dynamic-provider-process.ts";
import type { ConstructCall } from "./plugin-resources.ts";
import { startPulumiProcess } from "./pulumi-process.ts";
import { type Values, unmarked } from "./values.ts";

type Client = InstanceType<typeof providerGrpc.ResourceProviderClient>;

/** The directory that a program names as the plugin. */
export const pluginDirectory = join(import.meta.dirname, "../../plugin");

export interface PluginState {
  id: string;
  inputs: Values;
  outputs: Values;
}

/** The compiled provider process, called as Pulumi's engine calls it. */
export class ProviderPlugin {
  /** Messages with the URNs of their resources. */
  lines: { urn: string; text: string }[] = [];
  onLine: (text: string) => void = () => undefined;
  readonly child: ChildProcess;
  readonly client: Client;
  readonly #engine: Server;

  private constructor(child: ChildProcess, client: Client, engineServer: Server) {
    this.child = child;
    this.client = client;
    this.#engine = engineServer;
  }

  static async start(environment: NodeJS.ProcessEnv, settings: Values): Promise<ProviderPlugin> {
    const log = (urn: string, text: string): void => {
      plugin.lines.push({ urn, text });
      plugin.onLine(text);
    };
    const { server, address } = await serveEngine(log);
    const { child, port } = await startPulumiProcess({
      what: "the provider",
      program: [join(pluginDirectory, "pulumi-resource-ramet"), address],
      directory: pluginDirectory,
      environment,
      onLine: (text) => {
        log("", text);
      },
    });
    const client = new providerGrpc.ResourceProviderClient(`127.0.0.1:${port}`, credentials.createInsecure());
    const plugin = new ProviderPlugin(child, client, server);
    await plugin.configure(settings);
    return plugin;
  }

  async configure(settings: Values): Promise<void> {
    const request = new provider.ConfigureRequest().setArgs(toStruct(settings)).setAcceptsecrets(true);
    await answer((done) => this.client.configure(request, done));
  }

  async schema(): Promise<string> {
    const request = new provider.GetSchemaRequest();
    const response = await answer<InstanceType<typeof provider.GetSchemaResponse>>((done) =>
      this.client.getSchema(request, done),
    );
    return response.getSchema();
  }

  async checkConfig(settings: Values): Promise<{ inputs: Values; failures: string[] }> {
    const request = new provider.CheckRequest().setNews(toStruct(settings));
    const response = await answer<CheckResponse>((done) => this.client.checkConfig(request, done));
    return { inputs: toValues(response.getInputs()), failures: failuresOf(response) };
  }

  /** @throws Error with the problems of the inputs */
  async check(urn: string, news: Values, olds: Values = {}): Promise<Values> {
    const request = new provider.CheckRequest().setUrn(urn).setNews(toStruct(news)).setOlds(toStruct(olds));
    const response = await answer<CheckResponse>((done) => this.client.check(request, done));
    const failures = failuresOf(response);
    if (failures.length > 0) throw new Error(failures.join("\n"));
    return toValues(response.getInputs());
  }

  /** What a preview shows of a change: `~ recipe[1].run`. */
  async diff(
    urn: string,
    state: PluginState,
    news: Values,
  ): Promise<{ changes: boolean; replaces: string[]; details: string[] }> {
    const request = new provider.DiffRequest()
      .setUrn(urn)
      .setId(state.id)
      .setOlds(toStruct(state.outputs))
      .setOldInputs(toStruct(state.inputs))
      .setNews(toStruct(await this.check(urn, news, state.inputs)));
    const response = await answer<InstanceType<typeof provider.DiffResponse>>((done) =>
      this.client.diff(request, done),
    );
    const details: string[] = [];
    response.getDetaileddiffMap().forEach((kind, path) => details.push(`${signs[kind.getKind()]} ${path}`));
    const changes = response.getChanges() !== provider.DiffResponse.DiffChanges.DIFF_NONE;
    return { changes, replaces: response.getReplacesList(), details: details.toSorted() };
  }

  /** Creates a resource, or previews that. */
  async create(urn: string, news: Values, { preview = false } = {}): Promise<PluginState> {
    const inputs = await this.check(urn, news);
    const request = new provider.CreateRequest().setUrn(urn).setProperties(toStruct(inputs)).setPreview(preview);
    const response = await answer<InstanceType<typeof provider.CreateResponse>>((done) =>
      this.client.create(request, done),
    );
    return { id: response.getId(), inputs, outputs: toValues(response.getProperties()) };
  }

  async update(urn: string, state: PluginState, news: Values, { preview = false } = {}): Promise<PluginState> {
    const inputs = await this.check(urn, news, state.inputs);
    const request = new provider.UpdateRequest()
      .setUrn(urn)
      .setId(state.id)
      .setOlds(toStruct(state.outputs))
      .setNews(toStruct(inputs))
      .setPreview(preview);
    const response = await answer<InstanceType<typeof provider.UpdateResponse>>((done) =>
      this.client.update(request, done),
    );
    return { id: state.id, inputs, outputs: toValues(response.getProperties()) };
  }

  /** Undefined if there is no object. @param state absent for an import */
  async read(urn: string, id: string, state?: PluginState): Promise<PluginState | undefined> {
    const request = new provider.ReadRequest().setUrn(urn).setId(id);
    if (state !== undefined) request.setProperties(toStruct(state.outputs)).setInputs(toStruct(state.inputs));
    const response = await answer<InstanceType<typeof provider.ReadResponse>>((done) =>
      this.client.read(request, done),
    );
    if (response.getId() === "") return undefined;
    return {
      id: response.getId(),
      inputs: toValues(response.getInputs()),
      outputs: toValues(response.getProperties()),
    };
  }

  async delete(urn: string, state: PluginState): Promise<void> {
    const request = new provider.DeleteRequest().setUrn(urn).setId(state.id).setProperties(toStruct(state.outputs));
    await answer((done) => this.client.delete(request, done));
  }

  /** @param monitor the address of the engine's monitor */
  async construct(
    { type, name, parent, inputs, dependencies, ...program }: ConstructCall,
    monitor: string,
  ): Promise<Registered> {
    const request = new provider.ConstructRequest()
      .setType(type)
      .setName(name)
      .setParent(parent)
      .setInputs(toStruct(inputs))
      .setDependenciesList(dependencies)
      .setProject(program.project)
      .setStack(program.stack)
      .setOrganization("organization")
      .setDryrun(program.preview)
      .setParallel(16)
      .setMonitorendpoint(monitor);
    const response = await answer<InstanceType<typeof provider.ConstructResponse>>((done) =>
      this.client.construct(request, done),
    );
    return { urn: response.getUrn(), id: "", outputs: toValues(response.getState()) };
  }

  async cancel(): Promise<void> {
    await answer((done) => this.client.cancel(new empty.Empty(), done));
  }

  /** Ends the engine as a crash does. Resolves when the provider has ended. */
  async loseEngine(): Promise<void> {
    this.#engine.forceShutdown();
    await this.#ended();
  }

  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.#ended();
  }

  async stop(): Promise<void> {
    this.client.close();
    this.child.kill("SIGTERM");
    await this.#ended();
    this.#engine.forceShutdown();
  }

  async #ended(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, "exit");
  }
}

type CheckResponse = InstanceType<typeof provider.CheckResponse>;

const signs: Record<number, string> = { 0: "+", 1: "+!", 2: "-", 3: "-!", 4: "~", 5: "~!" };

function failuresOf(response: CheckResponse): string[] {
  return response.getFailuresList().map((one) => `${one.getProperty()}: ${one.getReason()}`);
}

/** Without the marks of secrets. */
export function plain(values: Values): Values {
  return unmarked(values) as Values;
}

/** A server that only receives messages. */
async function serveEngine(log: (urn: string, text: string) => void): Promise<{ server: Server; address: string }> {
  const server = new Server();
  const service: UntypedServiceImplementation = {
    log: (
      { request }: { request: InstanceType<typeof engine.LogRequest> },
      done: (error: ServiceError | null, response: InstanceType<typeof empty.Empty>) => void,
    ) => {
      if (request.getSeverity() !== engine.LogSeverity.DEBUG) log(request.getUrn(), request.getMessage());
      done(null, new empty.Empty());
    },
  };
  server.addService(engineGrpc.EngineService, service);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  return { server, address: `127.0.0.1:${port}` };
}
