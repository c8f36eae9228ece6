import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { jwtVerify } from "jose";
import type { GcsAccount } from "./google-account.ts";
import { refusalOfSignature } from "./google-signature.ts";

/**
 * A stand-in for the front end of Google Cloud Storage. It runs in front of fake-gcs-server, which has no authentication and
 * little of the XML API. It accepts requests that the account has signed with V4 signing or with a token, checks Content-MD5
 * and the condition of a PUT, and responds with the error codes of the XML API. A list has at most 100 objects a page, which
 * can be fewer than requested. This follows Google's documentation; no test here compares it with Google.
 */
export interface GcsFront {
  endpoint: string;
  stop(): Promise<void>;
}

export async function startGcsFront(target: string, account: GcsAccount): Promise<GcsFront> {
  const server = createServer((incoming, outgoing) => {
    answerTo(incoming, { target, account }).then(
      ({ status, headers = {}, body = "" }) => outgoing.writeHead(status, headers).end(body),
      () => outgoing.destroy(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Behind {
  target: string;
  account: GcsAccount;
}

interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: Buffer | string;
}

/** @throws Error if fake-gcs-server is unreachable */
async function answerTo(incoming: IncomingMessage, { target, account }: Behind): Promise<Answer> {
  const { method = "GET", url = "/", headers } = incoming;
  const body = await bytesOf(incoming);
  const isSigned = url.includes("X-Goog-Signature=");
  const code = isSigned
    ? refusalOfSignature({ method, target: url, headers }, account)
    : await refusalOfToken(headers.authorization, account);
  if (code !== undefined) return refused(code);
  if (url.startsWith("/storage/v1/"))
    return forwarded(await fetch(`${target}${url.replace(/(maxResults=)\d+/, "$1100")}`));
  const md5 = headers["content-md5"];
  if (md5 !== undefined && md5 !== createHash("md5").update(body).digest("base64")) return refused("BadDigest");
  const [, bucket = "", key = ""] = /^\/([^/]+)\/([^?]+)/.exec(decodeURIComponent(url)) ?? [];
  const [ofBucket, name] = [`/storage/v1/b/${bucket}`, encodeURIComponent(key)];
  const answer = await objectCall({ target, ofBucket, name }, { method, headers, body });
  if (answer.ok) return method === "GET" ? forwarded(answer) : { status: method === "PUT" ? 200 : 204 };
  if (answer.status !== 404) return refused(answer.status === 412 ? "PreconditionFailed" : "InvalidRange");
  return refused((await fetch(`${target}${ofBucket}`)).ok ? "NoSuchKey" : "NoSuchBucket");
}

/** Translates a request of the XML API to the JSON API, which fake-gcs-server supports better. */
function objectCall(
  { target, ofBucket, name }: { target: string; ofBucket: string; name: string },
  { method, headers, body }: { method: string; headers: IncomingMessage["headers"]; body: Buffer },
): Promise<Response> {
  if (method === "PUT") {
    const condition = headers["x-goog-if-generation-match"];
    const only = condition === undefined ? "" : `&ifGenerationMatch=${String(condition)}`;
    const url = `${target}/upload${ofBucket}/o?uploadType=media&name=${name}${only}`;
    return fetch(url, { method: "POST", body: new Uint8Array(body) });
  }
  const range = headers.range === undefined ? {} : { range: headers.range };
  return fetch(`${target}${ofBucket}/o/${name}?alt=media`, { method, headers: range });
}

async function forwarded(answer: Response): Promise<Answer> {
  const names = ["content-type", "content-range"].filter((name) => answer.headers.has(name));
  const headers = Object.fromEntries(names.map((name) => [name, answer.headers.get(name) ?? ""]));
  return { status: answer.status, headers, body: Buffer.from(await answer.arrayBuffer()) };
}

/** Accepts a token that the account has signed with its own key, for the scope of all of Google Cloud. */
async function refusalOfToken(authorization: string | undefined, { email, publicKey }: GcsAccount) {
  try {
    const token = /^Bearer (.+)$/.exec(authorization ?? "")?.[1] ?? "";
    const { payload } = await jwtVerify(token, publicKey, { issuer: email, subject: email, algorithms: ["RS256"] });
    return payload["scope"] === "https://www.googleapis.com/auth/cloud-platform" ? undefined : "AccessDenied";
  } catch {
    return "AuthenticationRequired";
  }
}

/** Source: Google's documentation of the XML API's error responses. */
const statuses: Readonly<Record<string, number>> = {
  AccessDenied: 403,
  AuthenticationRequired: 401,
  BadDigest: 400,
  ExpiredToken: 400,
  InvalidRange: 416,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  PreconditionFailed: 412,
  SignatureDoesNotMatch: 403,
};

function refused(code: string): Answer {
  const body = `<?xml version='1.0' encoding='UTF-8'?><Error><Code>${code}</Code><Message>${code}.</Message></Error>`;
  return { status: statuses[code] ?? 500, headers: { "content-type": "application/xml; charset=UTF-8" }, body };
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
