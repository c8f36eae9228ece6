// Text of the AWS SDK is parsed only here: its error for missing credentials has no code.
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { nameOfStore, type S3Location } from "../../../api/store/store-address.ts";
import { type Clock, systemClock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import type { Bucket, StoredObject } from "../bucket.ts";
import { clientCalls, type CloudErrors } from "../client-calls.ts";

/** The maximum size of one PUT. */
const largestObjectBytes = 5 * 2 ** 30;

/**
 * A prefix of a bucket of S3, or of a server with the same protocol. Uses the default credentials of AWS: the environment, the
 * service account's role (IRSA), EKS Pod Identity, a profile, or the node's role.
 */
export function s3Bucket(location: S3Location, { clock = systemClock }: { clock?: Clock } = {}): Bucket {
  const client = new S3Client(clientConfig(location));
  const { bucket, prefix } = location;
  const name = nameOfStore(location);
  const root = prefix === undefined ? "" : `${prefix}/`;
  const { call, callUnless, chunks } = clientCalls(name, s3Errors(name));
  const at = (key: string) => ({ Bucket: bucket, Key: `${root}${key}` });

  /** A signed URL expires with the credentials that signed it. Refreshes credentials that would expire too early. */
  async function requireCredentials(ttlMilliseconds: number): Promise<void> {
    const { expiration } = await client.config.credentials();
    if (expiration === undefined || expiration.getTime() >= clock.now().getTime() + ttlMilliseconds) return;
    await client.config.credentials({ forceRefresh: true });
  }

  function sign(command: GetObjectCommand | PutObjectCommand, ttlMilliseconds: number): Promise<string> {
    return call({ verb: "signing a request to" }, async () => {
      await requireCredentials(ttlMilliseconds);
      const options = { expiresIn: Math.ceil(ttlMilliseconds / 1000) };
      return command instanceof GetObjectCommand
        ? getSignedUrl(client, command, options)
        : getSignedUrl(client, command, options);
    });
  }

  return {
    name,
    largestObjectBytes,
    putIfAbsent: async (key, bytes) => {
      const put = new PutObjectCommand({ ...at(key), Body: bytes, IfNoneMatch: "*" });
      const done = await callUnless("exists", { verb: "writing", key, writes: true }, () => client.send(put));
      return done !== undefined;
    },
    read: async (key, signal) => {
      const what = { verb: "reading", key };
      const get = () => client.send(new GetObjectCommand(at(key)), signal && { abortSignal: signal });
      const response = await callUnless("absent", what, get);
      return response && chunks(what, response.Body as AsyncIterable<Uint8Array>);
    },
    async *list(below, signal) {
      let after: string | undefined;
      do {
        const page = new ListObjectsV2Command({ Bucket: bucket, Prefix: `${root}${below}`, ContinuationToken: after });
        const listed = await call({ verb: "listing" }, () => client.send(page, signal && { abortSignal: signal }));
        for (const { Key = "", Size: sizeBytes = 0, LastModified } of listed.Contents ?? []) {
          // An object without a time is never old enough for a sweep.
          const writtenAt = LastModified?.getTime() ?? Infinity;
          yield { key: Key.slice(root.length), sizeBytes, writtenAt } satisfies StoredObject;
        }
        after = listed.NextContinuationToken;
      } while (after !== undefined);
    },
    delete: async (key) => {
      const remove = () => client.send(new DeleteObjectCommand(at(key)));
      await callUnless("absent", { verb: "deleting", key, writes: true }, remove);
    },
    signGet: async (key, ttlMilliseconds) => {
      const url = await sign(new GetObjectCommand(at(key)), ttlMilliseconds);
      return { url, headers: {} };
    },
    signPutIfAbsent: async (key, ttlMilliseconds) => {
      const url = await sign(new PutObjectCommand({ ...at(key), IfNoneMatch: "*" }), ttlMilliseconds);
      return { url, headers: { "if-none-match": "*" } };
    },
  };
}

function clientConfig({ region, endpoint, pathStyle = endpoint !== undefined }: S3Location): S3ClientConfig {
  const effectiveRegion = region ?? (endpoint === undefined ? undefined : "us-east-1");
  return {
    ...defined({ region: effectiveRegion, endpoint }),
    forcePathStyle: pathStyle,
    // The content is unknown when a URL is signed, and not all servers support checksums.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    maxAttempts: 4,
    requestHandler: {
      connectionTimeout: 5_000,
      requestTimeout: 30_000,
      throwOnRequestTimeout: true,
      socketTimeout: 30_000,
    },
  };
}

function s3Errors(store: string): CloudErrors {
  return {
    refusalOf: (error) =>
      error instanceof S3ServiceException
        ? { status: error.$metadata.httpStatusCode, word: error.name }
        : { cause: error },
    hasNoCredentials: ({ name, message }) =>
      name === "CredentialsProviderError" || message.startsWith("Could not load credentials"),
    identityHint:
      "Give the controllers a role (IRSA or EKS Pod Identity), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    rightsHint: `Allow s3:GetObject, s3:PutObject and s3:DeleteObject on ${store}/*, and s3:ListBucket on its bucket`,
  };
}
