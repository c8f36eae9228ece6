import { expect, it } from "vitest";
import { annotations } from "../names/labels.ts";
import { credentialsDigest, credentialsOf } from "./credentials.ts";

const unopened = () => {
  throw new Error("nothing is sealed");
};
const of = (template: string | undefined, own?: string) =>
  credentialsOf(
    {
      template: template === undefined ? undefined : { annotations: { [annotations.credentials]: template } },
      sandbox: { namespace: "t", annotations: own === undefined ? {} : { [annotations.credentials]: own } },
    },
    unopened,
  );

it("reads references and texts", () => {
  const text = "rules: {API.example.org: {a: 'x $(secret/s/k.1) y', b: $(token/agent/https://sts.example.org)}}";
  expect(of(text)?.rules).toEqual({
    "api.example.org": {
      a: [{ text: "x " }, { secret: { name: "s", key: "k.1" } }, { text: " y" }],
      b: [{ token: { account: "agent", audience: "https://sts.example.org" } }],
    },
  });
  expect(of(undefined)).toBeUndefined();
});

it("lets a sandbox replace the rule of its template for the same domain", () => {
  const merged = of(
    '{"rules": {"a.test": {"x": "1"}, "b.test": {"x": "1"}}, "tls": true}',
    '{"rules": {"a.test": {}}}',
  );
  expect(merged).toMatchObject({ rules: { "a.test": {}, "b.test": { x: [{ text: "1" }] } }, tls: true });
});

it.each([
  ["an address", '{"rules": {"10.0.0.1": {}}}', "only a name"],
  ["everything", '{"rules": {"*": {}}}', "is not a name"],
  ["a header with a line feed in its name", '{"rules": {"a.test": {"a\\nb": "c"}}}', "not the name of a header"],
  ["a reference of another form", '{"rules": {"a.test": {"a": "$(secret/x)"}}}', "is not valid"],
  ["a reference with escapes", '{"rules": {"a.test": {"a": "$(\\u0073ecret/s/k)"}}}', "escapes"],
  ["an unknown field", '{"rule": {}}', "nrecognized"],
  ["text that is not YAML", "{s3cr3t", "is not JSON or YAML"],
  ["deep text", "[".repeat(10_000), "is not JSON or YAML"],
])("refuses %s, without its values", (_what, text, why) => {
  expect(() => of(text)).toThrow(why);
  expect(() => of(text)).not.toThrow("s3cr3t");
});

it("identifies what a sandbox requests", () => {
  expect(credentialsDigest({ annotations: {} })).toBeUndefined();
  const [a, b] = ["1", "2"].map((text) => credentialsDigest({ annotations: { [annotations.credentials]: text } }));
  expect(a).toMatch(/^[0-9a-f]{16}$/);
  expect(a).not.toBe(b);
});

const certificate = "-----BEGIN CERTIFICATE-----";
const withProxy = '{"egressProxy": {"address": "proxy.test:1080"}}';

it.each([
  ["a proxy", withProxy, "egressProxy would let others read"],
  ["a trusted certificate", `{"trustedCertificates": "${certificate}"}`, "trustedCertificates would let others read"],
])("refuses %s of a sandbox for values in rules of its template", (_what, own, why) => {
  const secret = '{"rules": {"a.test": {"x": "$(secret/s/k)"}}}';
  expect(() => of(secret, own)).toThrow(why);
  expect(() => of('{"rules": {"a.test": {"x": "$(token/s/k)"}}}', own)).toThrow(why);
  expect(of('{"rules": {"a.test": {"x": "text"}}}', own)).toBeDefined();
  expect(of(secret, own.replace("{", '{"rules": {"a.test": {}}, '))).toBeDefined();
  expect(of(own, secret)).toBeDefined();
});

it("refuses a proxy or a trusted certificate of others for what a client has sealed", () => {
  const sealed = (client: object, own: string, template = "{}") =>
    credentialsOf(
      {
        template: { annotations: { [annotations.credentials]: template } },
        sandbox: {
          namespace: "t",
          annotations: { [annotations.credentials]: own, [annotations.sealedCredentials]: JSON.stringify(client) },
        },
      },
      (_namespace, text) => text,
    );
  const rules = { "a.test": { x: [{ text: "literal" }] } };
  expect(() => sealed({ rules }, withProxy)).toThrow("rules of the client");
  expect(() => sealed({ rules }, `{"trustedCertificates": "${certificate}"}`)).toThrow("rules of the client");
  expect(sealed({ rules }, "{}", withProxy)).toBeDefined();
  const egressProxy = { address: "proxy.test:1080" };
  expect(() => sealed({ egressProxy }, "{}", '{"rules": {"b.test": {"x": "$(secret/s/k)"}}}')).toThrow("the template");
  expect(sealed({ rules, egressProxy }, "{}")).toBeDefined();
});

it("refuses more references than the controllers should read each minute", () => {
  const text = (count: number) =>
    Array.from({ length: count }, (_, index) => `$(token/agent/a${index})`).join("") + "$(token/agent/a1)".repeat(9);
  expect(of(JSON.stringify({ rules: { "a.test": { x: text(64) } } }))).toBeDefined();
  expect(() => of(JSON.stringify({ rules: { "a.test": { x: text(65) } } }))).toThrow("more than 64");
});
