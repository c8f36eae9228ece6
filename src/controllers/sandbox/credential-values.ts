import * as z from "zod";
import type { LinkCredentials } from "../../api/wire/cell-api.ts";
import { clientSecretKind, clientSecretName } from "../../api/kinds/client-secret.ts";
import { sealIdentity } from "../../api/credentials/credential-seal.ts";
import type { Credentials, ValuePart } from "../../api/credentials/credentials.ts";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { CredentialKeys } from "../../backends/environment-seal.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** A changed Secret takes effect within this time. */
const rereadMilliseconds = 60_000;
/** The API server rejects shorter ones. */
const tokenSeconds = 3_600;
/** The share of a token's life after which it is replaced. */
const usedShare = 0.8;

const TokenAnswer = z.looseObject({
  status: z.looseObject({ token: z.string().min(1), expirationTimestamp: z.iso.datetime() }),
});

interface Resolved {
  credentials: LinkCredentials;
  /** When they should be resolved again. */
  again: Date;
}

/** The longest value that link accepts as a header. */
const maxValueBytes = 16_384;
/** The limit for all values of a sandbox. The cell accepts 1 MiB, with the certificates. */
const maxTotalBytes = 524_288;

/** Resolves references to values, which exist only in memory. */
export class CredentialValues {
  readonly #client: KubeClient;
  readonly #keys: CredentialKeys;
  readonly #clock: Clock;
  readonly #tokens = new Map<string, { text: string; until: number }>();

  constructor(client: KubeClient, keys: CredentialKeys, clock: Clock) {
    this.#client = client;
    this.#keys = keys;
    this.#clock = clock;
  }

  /**
   * Undefined resolves to no credentials.
   * @throws RametError that names the reference: `NotFound` if the object does not exist, else retryable
   */
  async resolve(namespace: string, credentials: Credentials | undefined): Promise<Resolved> {
    const now = this.#clock.now().getTime();
    const { rules = {}, tls = false, trustedCertificates, egressProxy } = credentials ?? {};
    const value = this.#reader(namespace);
    const resolvedRules: LinkCredentials["rules"] = [];
    for (const [domain, headers] of Object.entries(rules)) {
      const texts: [string, string][] = [];
      for (const [name, parts] of Object.entries(headers)) texts.push([name, await value(parts)]);
      resolvedRules.push({ domain, headers: Object.fromEntries(texts) });
    }
    return {
      credentials: {
        rules: resolvedRules,
        ...(tls && {
          tls: {
            seed: this.#keys.authoritySeed(namespace),
            ...defined({ trusted: trustedCertificates }),
          },
        }),
        ...(egressProxy && {
          proxy: {
            address: egressProxy.address,
            ...(egressProxy.username && { username: await value(egressProxy.username) }),
            ...(egressProxy.password && { password: await value(egressProxy.password) }),
          },
        }),
      },
      again: new Date(now + rereadMilliseconds),
    };
  }

  /**
   * Returns the values of one sandbox, which reads each reference once, one after the other, and refuses values that are too large:
   * Secrets have up to 1 MiB, and can be named hundreds of times.
   */
  #reader(namespace: string): (parts: readonly ValuePart[]) => Promise<string> {
    const known = new Map<string, string>();
    let total = 0;
    return async (parts) => {
      let text = "";
      for (const part of parts) {
        const id = JSON.stringify(part);
        const own = known.get(id) ?? (await this.#part(namespace, part));
        known.set(id, own);
        text += own;
        if (text.length > maxValueBytes) throw tooLarge(`a value is larger than ${maxValueBytes} bytes`);
      }
      total += text.length;
      if (total > maxTotalBytes) throw tooLarge(`all values together are larger than ${maxTotalBytes} bytes`);
      return text;
    };
  }

  #part(namespace: string, part: ValuePart): Promise<string> {
    if ("text" in part) return Promise.resolve(part.text);
    if ("secret" in part) return this.#secret({ namespace, name: part.secret.name }, part.secret.key);
    if ("clientSecret" in part) return this.#clientSecret(namespace, part.clientSecret);
    return this.#token({ namespace, name: part.token.account }, part.token.audience);
  }

  async #secret(at: { namespace: string; name: string }, key: string): Promise<string> {
    const text = (await this.#client.secrets.find(at))?.data[key];
    if (text === undefined) throw missing(`the Secret ${at.name} or its key ${key} does not exist`);
    if (text.length > 2 * maxValueBytes)
      throw tooLarge(`the key ${key} of the Secret ${at.name} is larger than ${maxValueBytes} bytes`);
    // Files often end with a line feed, which no header can have.
    return Buffer.from(text, "base64")
      .toString("utf8")
      .replace(/\r?\n$/, "");
  }

  async #clientSecret(namespace: string, secret: string): Promise<string> {
    const at = { namespace, name: clientSecretName(secret) };
    const secrets = this.#client.of(clientSecretKind);
    const found = await secrets.find(at);
    if (found === undefined) throw missing(`the secret ${secret} of the client API does not exist`);
    return this.#keys.open(sealIdentity(namespace, "secret"), found.spec.sealedValue);
  }

  async #token(at: { namespace: string; name: string }, audience: string): Promise<string> {
    const id = JSON.stringify([at, audience]);
    const known = this.#tokens.get(id);
    if (known !== undefined && this.#clock.now().getTime() < known.until) return known.text;
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      metadata: { name: at.name, namespace: at.namespace },
      spec: { audiences: [audience], expirationSeconds: tokenSeconds },
    };
    const answer = await this.#client
      .resource(coreResources.serviceAccounts)
      .postSubresource(at, "token", body)
      .catch((cause: unknown) => {
        throw notIssued(at, cause);
      });
    const { token, expirationTimestamp } = TokenAnswer.parse(answer).status;
    const now = this.#clock.now().getTime();
    const until = now + (Date.parse(expirationTimestamp) - now) * usedShare - rereadMilliseconds;
    for (const [old, { until: end }] of this.#tokens) if (end < now) this.#tokens.delete(old);
    this.#tokens.set(id, { text: token, until });
    return token;
  }
}

function missing(why: string): RametError {
  return new RametError("NotFound", `The credentials of the sandbox cannot be resolved: ${why}`, {
    hint: "Create it, or remove the reference from the credentials",
  });
}

function tooLarge(why: string): RametError {
  return new RametError("InvalidArgument", `The credentials of the sandbox cannot be used: ${why}`, {
    hint: "Reference keys of Secrets that have only the value",
  });
}

function notIssued({ namespace, name }: { namespace: string; name: string }, cause: unknown): RametError {
  const { message, code } = RametError.from(cause);
  return new RametError("Unavailable", `The service account ${name} got no token: ${message}`, {
    retryable: true,
    cause,
    ...(code === "Forbidden" && {
      hint: `Let the controllers create serviceaccounts/token of ${name} by a Role in the namespace ${namespace}`,
    }),
  });
}
