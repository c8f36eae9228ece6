import {
  type handleUnaryCall,
  Metadata,
  type sendUnaryData,
  status,
  type StatusObject,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import plugin from "@pulumi/pulumi/proto/plugin_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import statusProto from "@pulumi/pulumi/proto/status_pb.js";
import any from "google-protobuf/google/protobuf/any_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import packageJson from "../../package.json" with { type: "json" };
import type { ErrorCode } from "../../src/base/error-codes.ts";
import { RametError } from "../../src/base/errors.ts";
import { visible } from "../../src/base/visible.ts";
import { InitFailed } from "../handlers/follow.ts";
import type { CheckResult } from "../handlers/handler.ts";
import type { ConstructRequest } from "./components.ts";
import { detailedDiff } from "./detailed-diff.ts";
import { type ProviderOperations, readSchema, type ResourceDiff, type ResourceRequest } from "./operations.ts";
import { received, sent, type Struct, topOf } from "./values.ts";

/** Properties that are secrets even if the program's values are not. */
const alwaysSecret = ["key", "digestKey", "kubeconfig", "served"];

/** The methods of Pulumi's ResourceProvider. gRPC answers the others with `UNIMPLEMENTED`. */
export function providerService(
  operations: ProviderOperations,
  link: { attach: (engine: string) => void; address: string },
): UntypedServiceImplementation {
  return {
    handshake: unary((request: InstanceType<typeof provider.ProviderHandshakeRequest>) => {
      link.attach(request.getEngineAddress());
      return new provider.ProviderHandshakeResponse().setAcceptSecrets(true);
    }),
    attach: unary((request: InstanceType<typeof plugin.PluginAttach>) => {
      link.attach(request.getAddress());
      return new empty.Empty();
    }),
    getPluginInfo: unary(() => new plugin.PluginInfo().setVersion(packageJson.version)),
    getSchema: unary(() => new provider.GetSchemaResponse().setSchema(readSchema())),
    checkConfig: unary((request: CheckRequest) => {
      const { values, secrets } = received(request.getNews());
      return checkResponse({ inputs: values, failures: operations.checkSettings(values) }, secrets);
    }),
    diffConfig: unary((request: DiffRequest) => {
      // Each resource compares the cluster of its state, so that a provider is never replaced.
      const [olds, news] = [request.getOldInputs() ?? request.getOlds(), request.getNews()].map(received);
      const details = detailedDiff(olds?.values, news?.values);
      return diffResponse({ changes: details.length > 0, replaces: [], deleteBeforeReplace: false, details });
    }),
    configure: unary((request: InstanceType<typeof provider.ConfigureRequest>) => {
      operations.configure(received(request.getArgs()).values);
      return new provider.ConfigureResponse().setAcceptsecrets(true).setAcceptoutputs(true).setSupportspreview(true);
    }),
    check: unary(async (request: CheckRequest) => {
      const news = received(request.getNews());
      const olds = received(request.getOlds()).values;
      return checkResponse(await operations.check(requestOf(request), olds, news), news.secrets);
    }),
    diff: unary(async (request: DiffRequest) => {
      const [olds, news] = [received(request.getOlds()).values, received(request.getNews()).values];
      const found = await operations.diff(requestOf(request), request.getId(), olds, news);
      return found === undefined ? new provider.DiffResponse() : diffResponse(found);
    }),
    create: unary(async (request: InstanceType<typeof provider.CreateRequest>) => {
      const { values, secrets } = received(request.getProperties());
      const { id, outs } = await initErrors(operations.create(requestOf(request), values), secrets);
      return new provider.CreateResponse().setId(id).setProperties(message(outs, secrets));
    }),
    update: unary(async (request: InstanceType<typeof provider.UpdateRequest>) => {
      const olds = received(request.getOlds()).values;
      const { values, secrets } = received(request.getNews());
      const outs = await initErrors(operations.update(requestOf(request), request.getId(), olds, values), secrets);
      return new provider.UpdateResponse().setProperties(message(outs, secrets));
    }),
    read: unary(async (request: InstanceType<typeof provider.ReadRequest>) => {
      const { values, secrets } = received(request.getProperties());
      const found = await operations.read(requestOf(request), request.getId(), values);
      const response = new provider.ReadResponse();
      if (found === undefined) return response;
      const inputs = found.inputs === undefined ? request.getInputs() : message(found.inputs, secrets);
      return response.setId(found.id).setProperties(message(found.outs, secrets)).setInputs(inputs);
    }),
    delete: unary(async (request: InstanceType<typeof provider.DeleteRequest>) => {
      await operations.delete(requestOf(request), request.getId(), received(request.getProperties()).values);
      return new empty.Empty();
    }),
    construct: unary((request: ConstructRequest) => operations.construct(request, link.address)),
    cancel: unary(() => {
      operations.cancel();
      return new empty.Empty();
    }),
  };
}

type CheckRequest = InstanceType<typeof provider.CheckRequest>;
type DiffRequest = InstanceType<typeof provider.DiffRequest>;

function requestOf(request: { getUrn(): string; getTimeout?(): number; getPreview?(): boolean }): ResourceRequest {
  return {
    urn: request.getUrn(),
    timeoutSeconds: request.getTimeout?.() ?? 0,
    preview: request.getPreview?.() ?? false,
  };
}

function checkResponse({ inputs, failures }: CheckResult, secrets: readonly string[]) {
  const found = failures.map(({ property, reason }) =>
    new provider.CheckFailure().setProperty(property).setReason(visible(reason)),
  );
  return new provider.CheckResponse().setInputs(message(inputs, secrets)).setFailuresList(found);
}

function diffResponse({ changes, replaces, deleteBeforeReplace, details }: ResourceDiff) {
  const { DIFF_NONE, DIFF_SOME } = provider.DiffResponse.DiffChanges;
  const response = new provider.DiffResponse()
    .setChanges(changes ? DIFF_SOME : DIFF_NONE)
    .setReplacesList(replaces)
    .setDeletebeforereplace(deleteBeforeReplace)
    .setDiffsList([...new Set(details.map(([path]) => topOf(path)))])
    .setHasdetaileddiff(true);
  const { ADD, ADD_REPLACE, DELETE, DELETE_REPLACE, UPDATE, UPDATE_REPLACE } = provider.PropertyDiff.Kind;
  const kinds = {
    add: [ADD, ADD_REPLACE],
    delete: [DELETE, DELETE_REPLACE],
    update: [UPDATE, UPDATE_REPLACE],
  } as const;
  for (const [path, kind] of details) {
    const isReplaced = replaces.includes(topOf(path));
    response.getDetaileddiffMap().set(path, new provider.PropertyDiff().setKind(kinds[kind][isReplaced ? 1 : 0]));
  }
  return response;
}

/** Marks the properties that contained a secret. A recipe is never one: it only has secret files. */
function message(values: Parameters<typeof sent>[0], secrets: readonly string[]): Struct {
  const names = secrets.map(topOf).filter((name) => name !== "recipe");
  return sent(values, new Set([...alwaysSecret, ...names]));
}

/** Answers with the result, or with the error's status. */
function unary<Request, Response>(
  work: (request: Request) => Response | Promise<Response>,
): handleUnaryCall<Request, Response> {
  return ({ request }, callback: sendUnaryData<Response>) => {
    Promise.resolve()
      .then(() => work(request))
      .then(
        (response) => {
          callback(null, response);
        },
        (error: unknown) => {
          callback(statusOf(error));
        },
      );
  };
}

class InitFailedWithSecrets extends Error {
  readonly failed: InitFailed;
  readonly secrets: readonly string[];

  constructor(failed: InitFailed, secrets: readonly string[]) {
    super(failed.message, { cause: failed });
    this.failed = failed;
    this.secrets = secrets;
  }
}

function initErrors<T>(work: Promise<T>, secrets: readonly string[]): Promise<T> {
  return work.catch((error: unknown) => {
    throw error instanceof InitFailed ? new InitFailedWithSecrets(error, secrets) : error;
  });
}

/** The status with which gRPC reports an error. The state of an object that exists but is not ready is in its details. */
function statusOf(error: unknown): Partial<StatusObject> {
  if (error instanceof InitFailedWithSecrets) return initStatus(error);
  const known = RametError.from(error);
  return { code: codes[known.code] ?? status.FAILED_PRECONDITION, details: visible(known.describe()) };
}

function initStatus({ failed, secrets }: InitFailedWithSecrets): Partial<StatusObject> {
  const detail = new provider.ErrorResourceInitFailed()
    .setId(failed.id)
    .setProperties(message(failed.properties, secrets))
    .setReasonsList(failed.reasons);
  const packed = new any.Any();
  packed.pack(detail.serializeBinary(), "pulumirpc.ErrorResourceInitFailed");
  const whole = new statusProto.Status().setCode(status.UNKNOWN).setMessage(failed.message);
  whole.addDetails(packed);
  const metadata = new Metadata();
  metadata.add("grpc-status-details-bin", Buffer.from(whole.serializeBinary()));
  return { code: status.UNKNOWN, details: failed.message, metadata };
}

const codes: Partial<Record<ErrorCode, status>> = {
  AlreadyExists: status.ALREADY_EXISTS,
  Canceled: status.CANCELLED,
  Conflict: status.FAILED_PRECONDITION,
  Forbidden: status.PERMISSION_DENIED,
  Internal: status.INTERNAL,
  InvalidArgument: status.INVALID_ARGUMENT,
  NotFound: status.NOT_FOUND,
  QuotaExceeded: status.RESOURCE_EXHAUSTED,
  Timeout: status.DEADLINE_EXCEEDED,
  Unauthorized: status.UNAUTHENTICATED,
  Unavailable: status.UNAVAILABLE,
};
