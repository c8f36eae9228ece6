import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from "@grpc/grpc-js";
import engineGrpc from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import engine from "@pulumi/pulumi/proto/engine_pb.js";
import resourceGrpc from "@pulumi/pulumi/proto/resource_grpc_pb.js";
import resource from "@pulumi/pulumi/proto/resource_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import type { Deployment, ResourceRequest } from "./deployment.ts";
import type { Values } from "./values.ts";

export interface MonitorOptions {
  deployment: Deployment;
  onLine: (line: string) => void;
  /** Called when a resource cannot be applied. */
  onFailure: () => void;
}

/**
 * Serves the two services that a program calls. Passes registered resources to the deployment and log messages to `onLine`. If a
 * resource fails, the program is stopped without a response, as in Pulumi's engine.
 */
export async function serveMonitor({
  deployment,
  onLine,
  onFailure,
}: MonitorOptions): Promise<{ address: string; stop: () => void }> {
  const server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
  server.addService(resourceGrpc.ResourceMonitorService, {
    supportsFeature: (call: Call<InstanceType<typeof resource.SupportsFeatureRequest>>, done: Done) => {
      const response = new resource.SupportsFeatureResponse();
      response.setHassupport(call.request.getId() === "secrets");
      done(null, response);
    },
    registerResource: (call: Call<Registration>, done: Done) => {
      const request = stackRequestFor(call.request);
      deployment.register(request).then(
        (registered) => {
          done(null, registeredResponse(registered));
        },
        (error: unknown) => {
          onLine(`error: ${request.name}: ${error instanceof Error ? error.message : String(error)}`);
          onFailure();
        },
      );
    },
    registerResourceOutputs: (call: Call<InstanceType<typeof resource.RegisterResourceOutputsRequest>>, done: Done) => {
      deployment.registerOutputs(call.request.getUrn(), toValues(call.request.getOutputs()));
      done(null, new empty.Empty());
    },
    signalAndWaitForShutdown: (_call: unknown, done: Done) => {
      done(null, new empty.Empty());
    },
  });
  let root = "";
  server.addService(engineGrpc.EngineService, {
    log: (call: Call<InstanceType<typeof engine.LogRequest>>, done: Done) => {
      const isDebug = call.request.getSeverity() === engine.LogSeverity.DEBUG;
      if (!isDebug) onLine(call.request.getMessage());
      done(null, new empty.Empty());
    },
    getRootResource: (_call: unknown, done: Done) => {
      const response = new engine.GetRootResourceResponse();
      response.setUrn(root);
      done(null, response);
    },
    setRootResource: (call: Call<InstanceType<typeof engine.SetRootResourceRequest>>, done: Done) => {
      root = call.request.getUrn();
      done(null, new engine.SetRootResourceResponse());
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  const stop = (): void => {
    server.forceShutdown();
  };
  return { address: `127.0.0.1:${port}`, stop };
}

type Registration = InstanceType<typeof resource.RegisterResourceRequest>;
type Call<T> = ServerUnaryCall<T, unknown>;
type Done = sendUnaryData<unknown>;

function stackRequestFor(request: Registration): ResourceRequest {
  return {
    type: request.getType(),
    name: request.getName(),
    parent: request.getParent(),
    custom: request.getCustom(),
    inputs: toValues(request.getObject()),
    aliases: request.getAliasurnsList(),
    dependencies: request.getDependenciesList(),
    additionalSecrets: request.getAdditionalsecretoutputsList(),
    retainOnDelete: request.getRetainondelete() ?? false,
  };
}

function registeredResponse({ urn, id, outputs }: Awaited<ReturnType<Deployment["register"]>>) {
  const response = new resource.RegisterResourceResponse();
  response.setUrn(urn);
  response.setId(id);
  response.setObject(toStruct(outputs));
  return response;
}

function toStruct(values: Values): InstanceType<typeof struct.Struct> {
  return struct.Struct.fromJavaScript(values as Parameters<typeof struct.Struct.fromJavaScript>[0]);
}

function toValues(found: InstanceType<typeof struct.Struct> | undefined): Values {
  return found?.toJavaScript() ?? {};
}
