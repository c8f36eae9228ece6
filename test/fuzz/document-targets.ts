import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import fc from "fast-check";
import * as z from "zod";
import { BootRequest, CheckpointRequest, EgressRequest, RestoreInPlaceCall } from "../../src/api/wire/cell-api.ts";
import { containerSpec } from "../../src/api/pod/container-spec.ts";
import { forbiddenFields } from "../../src/api/pod/template-policy.ts";
import { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { lastExpiry, limitsOfKey } from "../../src/api/keys/api-key-rules.ts";
import { ApiKey } from "../../src/api/kinds/api-key.ts";
import { NamedSnapshotManifest } from "../../src/api/kinds/named-snapshot.ts";
import { parsePodTemplate } from "../../src/api/schema/pod-template.ts";
import { readRoutedSandbox } from "../../src/gateway/routed-sandbox.ts";
import { partsOf } from "../../src/backends/checkpoint-record.ts";
import { systemClock } from "../../src/base/clock.ts";
import { guestError } from "../../src/cell/client/guest-http.ts";
import { processEvents, EntriesAnswer } from "../../src/cell/client/guest-wire.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { readStatus, statusError } from "../../src/kube/status-error.ts";
import { watchResource } from "../../src/kube/watch.ts";
import { checkGrant } from "../../src/store/checkpoint-id.ts";
import { parseManifest } from "../../src/store/manifest.ts";
import { decodePublication, publishedCheckpoint } from "../../src/store/objects/layout.ts";
import { bytesLike, jsonLike, valuesLike } from "./inputs.ts";
import {
  apiKey,
  checkpoint,
  digest,
  endOfStream,
  errorOfStream,
  grant,
  identity,
  manifest,
  objectsGrant,
  ref,
  sandbox,
  snapshot,
  statusBody,
  streamEvents,
  template,
} from "./samples.ts";
import { assertThat, coded, codedLater, target } from "./target.ts";

/** Documents that the API server, stores, cells and sandboxes send, and the bodies of requests to cells. */
export const documentTargets = [
  target({
    name: "manifests of checkpoints",
    inputs: jsonLike([manifest]),
    check: (text) => {
      const found = coded(() => parseManifest(Buffer.from(text), ref));
      const names = found?.files.map(({ name }) => name) ?? [];
      assertThat(
        names.every((name) => !/[/\0]|^\./.test(name)),
        `the files are ${names.join()}`,
      );
    },
  }),
  target({
    name: "publications of checkpoints",
    inputs: jsonLike([{ v: 1, attempt: objectsGrant.attempt, manifest }]),
    check: (text) => {
      coded(() => publishedCheckpoint(decodePublication(Buffer.from(text), ref), ref));
    },
  }),
  target({
    name: "requests to cells",
    inputs: valuesLike([
      { identity },
      {
        policy: {
          default: "deny",
          allow: ["example.org"],
          deny: [],
          narrowedBy: [{ default: "allow", allow: [], deny: [] }],
        },
      },
      { grant, contents: ["memory"], keepRunning: true },
      { identity, grant: { ...grant, access: "read", manifestDigest: digest }, contents: ["filesystem"], request: "a" },
      { identity, grant: objectsGrant, contents: ["memory", "filesystem"], request: "a" },
    ]),
    check: (value) => {
      // The server converts the errors of these schemas; any other error would be a defect.
      for (const schema of [BootRequest, EgressRequest, CheckpointRequest, RestoreInPlaceCall]) {
        const { data, error } = schema.safeParse(value);
        if (error !== undefined) z.prettifyError(error);
        if (data !== undefined && "grant" in data)
          coded(() => {
            checkGrant(data.grant, "write", systemClock);
          });
      }
    },
  }),
  target({
    name: "templates of Pods",
    inputs: valuesLike([template]),
    examples: [
      { spec: { containers: [{ name: "a", image: "b", resources: { limits: { memory: "1e100", cpu: "9E" } } }] } },
    ],
    check: (value) => {
      const parsed = coded(() => parsePodTemplate(value));
      if (parsed === undefined) return;
      const isOnHost = (parsed.spec as { hostNetwork?: unknown }).hostNetwork === true;
      const found = coded(() => forbiddenFields(parsed, new Set())) ?? [];
      assertThat(
        !isOnHost || found.some(({ name }) => name === "hostNetwork"),
        "a template may use the host's network",
      );
      coded(() => containerSpec(parsed));
    },
  }),
  target({
    name: "checkpoint objects",
    inputs: valuesLike([checkpoint]),
    check: (value) => {
      const { data } = Checkpoint.safeParse(value);
      if (data !== undefined) coded(() => partsOf(data.status?.ramet));
    },
  }),
  target({
    name: "named snapshot objects",
    inputs: valuesLike([snapshot]),
    check: (value) => {
      NamedSnapshotManifest.safeParse(value);
    },
  }),
  target({
    name: "API key objects",
    inputs: valuesLike([apiKey]),
    check: (value) => {
      const { data } = ApiKey.safeParse(value);
      if (data === undefined) return;
      const limits = Object.values(limitsOfKey(data.spec));
      assertThat(!limits.some(Number.isNaN), `the limits are ${limits.join()}`);
      const last = lastExpiry(data.spec.digests);
      const end = last === undefined ? undefined : new Date(last.toUpperCase());
      assertThat(end === undefined || Number.isFinite(end.getTime()), `the last value ends at ${String(last)}`);
    },
  }),
  target({
    name: "watches",
    inputs: fc.tuple(
      bytesLike(
        [
          ...["ADDED", "MODIFIED", "DELETED"].map((type) => `${JSON.stringify({ type, object: sandbox })}\n`),
          `${JSON.stringify({ type: "BOOKMARK", object: { metadata: { resourceVersion: "7" } } })}\n`,
          `${JSON.stringify({ type: "ERROR", object: { ...statusBody, code: 410, reason: "Expired" } })}\n`,
        ],
        ["\n", '"type":"ADDED"', "}{"],
      ),
      fc.integer({ min: 1, max: 200 }),
    ),
    check: async ([bytes, chunkBytes]) => {
      const options = {
        resourceVersion: "1",
        timeoutSeconds: 60,
        stallMilliseconds: 60_000,
        signal: new AbortController().signal,
      };
      // The server stands in for an API server: it sends these bytes as the body of a watch.
      const server = {
        clock: systemClock,
        stream: () => Promise.resolve(chunksOf(bytes, chunkBytes)),
        request: () => Promise.reject(new Error("not used")),
      };
      await codedLater(async () => {
        for await (const event of watchResource(server as never, coreResources.pods, options)) {
          // As a cache reads it; it reports what it cannot read.
          if (event.type !== "BOOKMARK")
            try {
              readRoutedSandbox(event.object);
            } catch (error) {
              assertThat(error instanceof z.ZodError, String(error));
            }
        }
      });
    },
  }),
  target({
    name: "errors of the API server",
    inputs: fc.tuple(
      jsonLike([statusBody]),
      fc.integer({ min: 100, max: 599 }),
      fc.option(fc.string(), { nil: undefined }),
    ),
    check: ([text, status, retryAfter]) => {
      const error = statusError("get pods", readStatus(status, text, retryAfter));
      assertThat(error.message.startsWith("get pods failed: "), error.message);
    },
  }),
  target({
    name: "streams of guests",
    share: 0.5,
    inputs: fc.tuple(
      bytesLike(
        [[...streamEvents, endOfStream].join(""), [streamEvents[0], errorOfStream].join("")],
        [endOfStream, errorOfStream, "\x02\0\0\0\x02{}", "\0\xff\xff\xff\xff"],
      ),
      fc.integer({ min: 1, max: 300 }),
    ),
    check: async ([bytes, chunkBytes]) => {
      const response = PassThrough.from(chunksOf(bytes, chunkBytes)) as unknown as IncomingMessage;
      await codedLater(async () => {
        for await (const event of processEvents("running true", () => Promise.resolve(response))) {
          if (event.type !== "end") continue;
          assertThat(Number.isInteger(event.exitCode), `the exit code is ${event.exitCode}`);
          assertThat(event.missedBytes >= 0, `${event.missedBytes} bytes were missed`);
        }
      });
    },
  }),
  target({
    name: "errors of guests",
    inputs: fc.tuple(
      jsonLike([
        { code: "not_found", message: "gone", details: [{ type: "ramet.dev.v1.UnknownUser" }] },
        { entries: [] },
      ]),
      fc.integer({ min: 0, max: 599 }),
    ),
    check: ([text, status]) => {
      guestError("reading", status, text);
      EntriesAnswer.safeParse(text);
    },
  }),
];

async function* chunksOf(bytes: Buffer, chunkBytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    await Promise.resolve();
    yield bytes.subarray(at, at + chunkBytes);
  }
}
