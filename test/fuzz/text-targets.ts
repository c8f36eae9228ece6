import fc from "fast-check";
import { effectiveEgress } from "../../src/api/egress/effective-egress.ts";
import { coversRule, parseEgressRule } from "../../src/api/egress/egress-rules.ts";
import { readApiKey } from "../../src/api/keys/api-key-text.ts";
import { parseImageReference } from "../../src/api/names/image-reference.ts";
import { requestedEnvironment } from "../../src/api/names/init-request.ts";
import { annotations, labels, restoreFrom } from "../../src/api/names/labels.ts";
import { rollbackRequest } from "../../src/api/names/rollback-request.ts";
import { parseSnapshotReference, printSnapshotReference } from "../../src/api/snapshot/snapshot-reference.ts";
import { formatStoreAddress, parseStoreAddress } from "../../src/api/store/store-address.ts";
import { environmentSeal } from "../../src/backends/environment-seal.ts";
import { parseDuration } from "../../src/base/duration.ts";
import { quantityToBytes, quantityToMillicores } from "../../src/base/quantity.ts";
import { originReader } from "../../src/gateway/client-origin.ts";
import { destinationOf } from "../../src/gateway/destination.ts";
import { forwardedResponseHead, switchingHead } from "../../src/gateway/forwarded-headers.ts";
import { findSandbox } from "../../src/gateway/routed-sandbox.ts";
import { expiryOf } from "../../src/gateway/token-verifier.ts";
import { kindOf } from "../../src/store/objects/layout.ts";
import { jsonLike, textsLike } from "./inputs.ts";
import { assertThat, coded, target } from "./target.ts";

const seal = environmentSeal(Buffer.alloc(32));

const rules = [
  "10.0.0.0/8:443",
  "*.example.org",
  "example.org:80",
  "*",
  "169.254.169.254",
  "0.0.0.0/0",
  "*.svc.cluster.local",
];

const egressSamples = [
  { default: "deny", allow: ["*.example.org:443", "10.1.0.0/16"], deny: ["10.1.2.3"] },
  { allow: ["169.254.169.254", "kubernetes.default.svc.cluster.local"] },
];

const jwt = ["eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ", "eyJhdWQiOlsicmFtZXQtZ2F0ZXdheSJdLCJleHAiOjF9", "c2ln"].join(".");

/** Parsers of texts that users, clients and clouds write. */
export const textTargets = [
  target({
    name: "durations",
    inputs: textsLike(
      ["30s", "1h30m", "-1.5h", "30d", "0", "100ms", ".5m", "1µs"],
      ["s", "m", "h", "d", "ns", ".", "-"],
    ),
    examples: ["9".repeat(400) + "d", "1".repeat(50_000)],
    check: (text) => {
      const milliseconds = coded(() => parseDuration(text));
      if (milliseconds !== undefined) new Date(milliseconds).toISOString();
    },
  }),
  target({
    name: "quantities",
    inputs: textsLike(
      ["512Mi", "1.5Gi", "100m", "1e9", "-1", "0.1", "1E", ".5k"],
      ["Ki", "m", "e", "E", ".", "-", "+", "999"],
    ),
    examples: ["1e999", "9".repeat(20_000), `0.${"0".repeat(20_000)}1`],
    check: (text) => {
      for (const read of [quantityToBytes, quantityToMillicores]) {
        const value = coded(() => read(text));
        assertThat(value === undefined || Number.isInteger(value), `${text.slice(0, 80)} is ${String(value)}`);
      }
    },
  }),
  target({
    name: "image names",
    inputs: textsLike(
      ["registry.example:5000/a/b-c:1.0@sha256:" + "0".repeat(64), "python:3.13", "[::1]:5000/a", "a__b"],
      ["/", ":", "@", "-"],
    ),
    examples: ["a-".repeat(50_000), "a.".repeat(50_000) + "!"],
    check: (text) => {
      const image = coded(() => parseImageReference(text));
      assertThat(image === undefined || text.startsWith(image.repository), `${text} is ${JSON.stringify(image)}`);
    },
  }),
  target({
    name: "snapshot references",
    inputs: textsLike(["python", "python@7", `python@sha256:${"0".repeat(64)}`], ["@", "-", "0"]),
    check: (text) => {
      const reference = coded(() => parseSnapshotReference(text));
      assertThat(reference === undefined || printSnapshotReference(reference) === text, `${text} changed`);
    },
  }),
  target({
    name: "API keys",
    inputs: textsLike(
      [`e2b_${"0123456789abcdef".repeat(3)}`, `s0_eu-west-1_${"0".repeat(48)}`, "f".repeat(48)],
      ["e2b_", "s0_", "_", "A", "\n"],
    ),
    examples: [`s0_${"a".repeat(50_000)}`, "0".repeat(50_000), `s0_${"-".repeat(63)}_${"0".repeat(48)}`],
    check: (text) => {
      const key = readApiKey(text);
      assertThat(key === undefined || (text.endsWith(key.digits) && key.digits.startsWith(key.id)), `${text} changed`);
    },
  }),
  target({
    name: "store addresses",
    inputs: textsLike(
      [
        "s3://bucket/a/b?region=eu-central-1&endpoint=https://s3.example&path-style=true",
        "gs://bucket/p?endpoint=http://127.0.0.1:1",
        "azblob://box/p?account=name",
      ],
      ["/", "?", "&", "#", "endpoint=", "prefix", "%2f", "@"],
    ),
    check: (text) => {
      const location = coded(() => parseStoreAddress(text));
      if (location === undefined) return;
      const again = parseStoreAddress(formatStoreAddress(location));
      assertThat(JSON.stringify(again) === JSON.stringify(location), `${text} is ${JSON.stringify([location, again])}`);
    },
  }),
  target({
    name: "keys of objects in a store",
    inputs: textsLike(
      ["team-a/c1/manifest.json", "team-a/c1/1700000000000-0123456789abcdef/0", "probe.0123456789abcdef"],
      ["/", "..", "."],
    ),
    check: (text) => {
      const kind = coded(() => kindOf(text));
      const ref = kind !== undefined && "ref" in kind ? kind.ref : undefined;
      assertThat(
        ref === undefined || text.startsWith(`${ref.namespace}/${ref.checkpointId}/`),
        `${text} is of another`,
      );
    },
  }),
  target({
    name: "egress rules",
    inputs: fc.tuple(textsLike(rules, [".", "*", ":", "/"]), fc.constantFrom(...rules)),
    check: ([text, other]) => {
      const [rule, second] = [parseEgressRule(text), parseEgressRule(other)];
      if (typeof rule === "string" || typeof second === "string") return;
      assertThat(coversRule(rule, rule), `${text} does not cover itself`);
      coversRule(second, rule);
    },
  }),
  target({
    name: "egress annotations",
    inputs: fc.tuple(
      jsonLike(egressSamples),
      textsLike(
        ["default: deny\nallow:\n- example.org", "&a [*a, *a]", "a: &x [1]\nb: [*x,*x]"],
        ["&a ", "*a", "- ", ": ", "!!js ", "|\n"],
      ),
      textsLike(["true", "false"]),
    ),
    examples: [
      ["[".repeat(16_000), "- ".repeat(8_000), "x"],
      ["{}", "? ".repeat(8_000), "true"],
    ],
    check: ([json, yaml, access]) => {
      const annotationsOf = (text: string) => ({ annotations: { [annotations.egress]: text } });
      const { policy, problem } = effectiveEgress(
        { rules: { default: "allow" } },
        annotationsOf(json),
        annotationsOf(yaml),
        { labels: { [labels.allowInternetAccess]: access } },
      );
      const unreadable = problem?.code === "InvalidArgument" || problem === undefined;
      assertThat(unreadable && JSON.stringify(policy).length < 200_000, "the policy or its problem is not well-formed");
      const closed = policy.narrowedBy?.every((level) => level.default === "allow") ?? true;
      assertThat(access !== "false" || !closed, "a sandbox without internet access has it");
    },
  }),
  target({
    name: "annotations of sandboxes",
    inputs: fc.tuple(jsonLike([{ envVars: { A: "b" } }, { envVars: null }]), textsLike(["python@7", "c-1"])),
    check: ([json, text]) => {
      const requests = { [annotations.initRuntimeRequest]: json, [annotations.rollbackTo]: text };
      const metadata = { namespace: "a", annotations: requests };
      const sealed = { namespace: "a", annotations: { [annotations.sealedInitRequest]: json } };
      coded(() => requestedEnvironment({ metadata: sealed }, seal));
      const variables = coded(() => requestedEnvironment({ metadata }, seal)) ?? {};
      assertThat(
        Object.values(variables).every((value) => typeof value === "string"),
        "a value is not a text",
      );
      coded(() => rollbackRequest({ metadata }));
      const template = jsonOf(json);
      coded(() => restoreFrom({ metadata, spec: { template } }));
    },
  }),
  target({
    name: "destinations",
    inputs: fc.record(
      {
        host: textsLike(
          ["8000-team-a--dev.example.org", "49983-11111111-2222-4333-8444-555555555555.x", "127.0.0.1:8080"],
          ["-", "--", "."],
        ),
        "e2b-sandbox-id": textsLike(["team-a--dev", "11111111-2222-4333-8444-555555555555"], ["--", "-"]),
        "e2b-sandbox-port": textsLike(["80", "49983", "49982", "65535"]),
        url: textsLike(["/", "/kruise/team-a--dev/80/x?y", "/kruise/api/sandboxes"], ["/", "?", "#", "//", "%2f"]),
      },
      { requiredKeys: ["url"] },
    ),
    check: ({ url, ...headers }) => {
      const named = coded(() => destinationOf({ url, headers }));
      if (named === undefined) return;
      const { port, sandboxId } = named.destination;
      assertThat(named.url === url || named.url.startsWith("/"), `the path is ${named.url}`);
      assertThat(port >= 1 && port <= 65_535 && port !== 49_982, `the port is ${port}`);
      coded(() => findSandbox({ get: () => undefined, byUid: () => undefined }, sandboxId));
    },
  }),
  target({
    name: "origins of clients",
    inputs: fc.record({
      peer: textsLike(["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "fe80::1%eth0"], [":", "::", "."]),
      forwarded: textsLike(["203.0.113.7", "203.0.113.7:80, 10.0.0.2", "2001:db8::1, ::1"], [",", " ", ":"]),
      trusted: fc.constantFrom([], ["10.0.0.0/8"], ["10.0.0.0/8", "2001:db8::/32"]),
    }),
    check: ({ peer, forwarded, trusted }) => {
      const headers = { "x-forwarded-for": forwarded };
      const socket = { remoteAddress: peer } as never;
      const origin = coded(() => originReader(trusted)({ socket, headers }));
      assertThat(
        origin !== undefined && !/nan/i.test(origin.address.replace(peer, "")),
        `the client is ${origin?.address}`,
      );
    },
  }),
  target({
    name: "responses of sandboxes",
    inputs: fc.record({
      status: fc.oneof(fc.integer({ min: -1, max: 1000 }), fc.constantFrom(101, 200, 204, 304)),
      headers: fc.array(
        textsLike(["Content-Length", "5", "connection", "x-a, x-b", "X-A", "1", "Upgrade", "tcp"], [",", ":"]),
        { maxLength: 8 },
      ),
    }),
    check: ({ status, headers }) => {
      // Both may throw: their caller then refuses the response.
      try {
        const head = forwardedResponseHead(status, headers);
        assertThat(head.headers.length % 2 === 0, "a header has no value");
      } catch (error) {
        assertThat(error instanceof Error && error.message.startsWith("its status"), String(error));
      }
      try {
        const lines = switchingHead(headers).split("\r\n");
        assertThat(lines.length === Math.ceil(headers.length / 2) + 3, "a header has a line break");
      } catch (error) {
        assertThat(String((error as NodeJS.ErrnoException).code).startsWith("ERR_"), String(error));
      }
    },
  }),
  target({
    name: "expiry of tokens",
    inputs: textsLike([jwt, "e30.e30.", "a.b.c"], [".", "e30"]),
    check: (text) => {
      assertThat(!Number.isNaN(expiryOf(text)), "the expiry is not a number");
    },
  }),
];

/** The value of a text, undefined if it is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
