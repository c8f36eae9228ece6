import { readToken } from "../../kube/connection.ts";
import { decodeJwt } from "jose";
import * as z from "zod";
import { gatewayAddress, gatewayAudience, systemNamespace } from "../../api/names/system-names.ts";
import { RametError, resultOr } from "../../base/errors.ts";
import type { GatewayCredentials } from "../../cell/client/gateway-guest.ts";
import { parseOriginUrl } from "../../install/gateway-address.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Io } from "../io.ts";
import type { Cluster } from "./cluster.ts";

export interface AccessFlags {
  gateway?: string;
  /** A file with a token for the gateway. */
  tokenFile?: string;
  /** `NAME` or `NAMESPACE/NAME`: a token of this service account is requested. */
  asServiceAccount?: string;
  /** Connects to the sandbox's Pod with the keys of the controllers. */
  direct?: boolean;
}

/**
 * Finds the gateway of a cluster and a token for it. The user's token for the API server is never sent to a gateway.
 * @throws RametError `Unavailable` without an address, `Unauthorized` without a token, `Forbidden` if the user may not request one
 */
export async function gatewayCredentials(io: Io, cluster: Cluster, flags: AccessFlags): Promise<GatewayCredentials> {
  const given = givenAddress(io, flags);
  const tokenGiven = tokenOfFlags(io, cluster, flags);
  if (given !== undefined && tokenGiven !== undefined) return { url: parseUrl(given), token: tokenGiven };
  const published = await readAddress(cluster);
  const address = chosenAddress(given, published);
  const token = tokenGiven ?? (await tokenOfUser(io, cluster, published.serviceAccount));
  return { ...address, token };
}

/**
 * Finds the gateway of a cluster, for clients that send a sandbox's own access token.
 * @throws RametError `Unavailable` without an address
 */
export async function gatewayWithoutToken(
  io: Io,
  cluster: Cluster,
  flags: Pick<AccessFlags, "gateway">,
): Promise<GatewayCredentials> {
  const given = givenAddress(io, flags);
  return chosenAddress(given, given === undefined ? await readAddress(cluster) : {});
}

function givenAddress(io: Io, { gateway }: Pick<AccessFlags, "gateway">): string | undefined {
  return gateway ?? nonEmpty(io.environment["RAMET_GATEWAY"]);
}

/** The published authority is for the published address. */
function chosenAddress(given: string | undefined, published: PublishedAddress): GatewayCredentials {
  const url = given ?? published.url;
  if (url === undefined) throw unknownAddress(published.problem);
  return { url: parseUrl(url), ...(given === undefined && published.ca && { ca: published.ca }) };
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

function parseUrl(text: string): URL {
  const url = parseOriginUrl(text);
  if (url !== undefined) return url;
  throw new RametError("InvalidArgument", `The gateway's address is not valid: ${JSON.stringify(text)}`, {
    hint: "Write it as https://gateway.example.org or http://127.0.0.1:8080, without a path",
  });
}

interface PublishedAddress {
  url?: string | undefined;
  ca?: string | undefined;
  serviceAccount?: string | undefined;
  /** Why there is none. */
  problem?: RametError;
}

async function readAddress({ client, signal }: Cluster): Promise<PublishedAddress> {
  const maps = client.resource(coreResources.configMaps, (value) => AddressMap.parse(value));
  try {
    const { data } = await maps.get({ namespace: systemNamespace, name: gatewayAddress.configMap }, { signal });
    return {
      url: data[gatewayAddress.url],
      ca: data[gatewayAddress.ca],
      serviceAccount: data[gatewayAddress.serviceAccount],
    };
  } catch (error) {
    const problem = RametError.from(error);
    if (problem.code === "NotFound" || problem.code === "Forbidden") return { problem };
    throw error;
  }
}

const AddressMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).default({}) });

function unknownAddress(cause: RametError | undefined): RametError {
  const message = "Cannot enter the sandbox: the cluster does not publish the address of its gateway";
  return new RametError("Unavailable", message, {
    hint: "Set --gateway or RAMET_GATEWAY, such as http://127.0.0.1:8080 after: kubectl port-forward -n ramet-system service/ramet-gateway 8080:80; or ask an administrator to publish it (`ramet manifests --gateway-url`); a local cluster publishes it after: ramet local down && ramet local up",
    cause,
  });
}

type TokenSource = NonNullable<GatewayCredentials["token"]>;

/** The token that flags or variables select. */
function tokenOfFlags(io: Io, cluster: Cluster, flags: AccessFlags): TokenSource | undefined {
  const { tokenFile } = flags;
  // Read for each call: the kubelet renews projected tokens.
  if (tokenFile !== undefined) return () => readToken(tokenFile);
  const account = flags.asServiceAccount;
  if (account !== undefined) return requestedToken(io, cluster, account);
  const token = nonEmpty(io.environment["RAMET_GATEWAY_TOKEN"]);
  if (token !== undefined) return () => Promise.resolve(token);
  const usual = nonEmpty(io.environment["RAMET_AS_SERVICE_ACCOUNT"]);
  return usual === undefined ? undefined : requestedToken(io, cluster, usual);
}

/** The token of a user who names none: that of the kubeconfig's service account, or of the local cluster's. */
async function tokenOfUser(io: Io, cluster: Cluster, published: string | undefined): Promise<TokenSource> {
  const { token = "" } = (await cluster.credentials?.current(false)) ?? {};
  const { aud, sub = "" } = claimsOf(token);
  // It was made for gateways and nothing else.
  if ([aud].flat().every((audience) => audience === gatewayAudience)) return () => Promise.resolve(token);
  const own = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(sub)?.slice(1).join("/");
  const account = own ?? published;
  if (account !== undefined) return requestedToken(io, cluster, account);
  throw new RametError("Unauthorized", "Cannot enter the sandbox: gateways require the token of a service account", {
    hint: "Name a service account that may create sandboxes/exec and whose tokens you may request (create serviceaccounts/token) with --as-service-account, or set --token-file or RAMET_GATEWAY_TOKEN",
  });
}

/** Tokens of some authenticators are not JSON Web Tokens. */
function claimsOf(token: string): z.infer<typeof Claims> {
  return resultOr(() => Claims.parse(decodeJwt(token)), {});
}

const Claims = z.object({
  aud: z.union([z.string(), z.array(z.string())]).optional(),
  sub: z.string().optional(),
});

const tokenSeconds = 3600;

/** Requests a token when it is first needed, and another one before it expires. */
function requestedToken(io: Io, cluster: Cluster, account: string): TokenSource {
  const [, namespace = cluster.namespace, name] = /^(?:([^/]+)\/)?([^/]+)$/.exec(account) ?? [];
  if (name === undefined) {
    throw new RametError("InvalidArgument", `Not a service account: ${JSON.stringify(account)}`, {
      hint: "Write it as NAME or NAMESPACE/NAME",
    });
  }
  let known: Promise<string> | undefined;
  let since = 0;
  return () => {
    const now = io.clock.monotonicMilliseconds();
    if (known === undefined || now - since > (tokenSeconds * 1000) / 2) {
      since = now;
      known = requestToken(cluster, { namespace, name });
      known.catch(() => (known = undefined));
    }
    return known;
  };
}

async function requestToken(
  { client, signal }: Cluster,
  account: { namespace: string; name: string },
): Promise<string> {
  const spec = { audiences: [gatewayAudience], expirationSeconds: tokenSeconds };
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", metadata: {}, spec };
  const at = { ...account, subresource: "token" };
  const request = { verb: "create", resource: coreResources.serviceAccounts, at, body, repeatable: true } as const;
  try {
    return TokenRequest.parse(await client.request({ ...request, signal })).status.token;
  } catch (error) {
    const cause = RametError.from(error);
    if (cause.code !== "Forbidden" && cause.code !== "NotFound") throw error;
    const { namespace, name } = account;
    const why = `Cannot get a token of the service account ${name} in ${namespace}: ${cause.message}`;
    throw new RametError(cause.code, why, {
      hint: `Ask for the verb create on serviceaccounts/token with the name ${name} in namespace ${namespace}, or name another account with --as-service-account`,
      cause,
    });
  }
}

const TokenRequest = z.object({ status: z.object({ token: z.string() }) });
