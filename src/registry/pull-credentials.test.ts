import { expect, it } from "vitest";
import { credentialsFor, parsePullSecret, type PullKeyring } from "./pull-credentials.ts";
import { imageAddress, serverOf } from "./registry-transport.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const found = (image: string, keyring: PullKeyring) =>
  credentialsFor(imageAddress(image), keyring).map(({ username }) => username);
const keyringOf = (...patterns: string[]): PullKeyring =>
  patterns.map((pattern) => [pattern, { username: pattern, password: "" }]);

it("reads both formats of Secrets, and skips what is malformed", () => {
  const auths = { "a.example": { auth: base64("user:pass:word") }, "b.example": { username: "u", password: "p" } };
  const expected = [
    ["a.example", { username: "user", password: "pass:word" }],
    ["b.example", { username: "u", password: "p" }],
  ];
  expect(parsePullSecret(JSON.stringify({ auths }))).toEqual(expected);
  expect(parsePullSecret(JSON.stringify(auths))).toEqual(expected);
  expect(parsePullSecret(JSON.stringify({ auths: { "c.example": { identitytoken: "t" }, "d.example": {} } }))).toEqual([
    ["c.example", { username: "", password: "", identityToken: "t" }],
  ]);
  for (const text of ["", "{", "[]", '{"auths":{"a":1}}']) expect(parsePullSecret(text)).toBeUndefined();
});

// The rules and examples of Kubernetes: "Interpretation of config.json".
it.each([
  ["reg.example/app", ["reg.example", "other.example"], ["reg.example"]],
  [
    "reg.example/team/app",
    ["reg.example", "reg.example/team", "reg.example/other"],
    ["reg.example/team", "reg.example"],
  ],
  ["sub.kubernetes.io/app", ["*.kubernetes.io", "*.*.kubernetes.io"], ["*.kubernetes.io"]],
  ["prefix.sub.kubernetes.io/app", ["*.kubernetes.io"], []],
  ["sub-good.kubernetes.io/app", ["sub*.kubernetes.io", "*bad.kubernetes.io"], ["sub*.kubernetes.io"]],
  [
    "reg.example:5000/app",
    ["reg.example", "reg.example:5000", "https://reg.example:5000/v2/"],
    ["reg.example:5000", "https://reg.example:5000/v2/"],
  ],
  ["python", ["https://index.docker.io/v1/", "reg.example"], ["https://index.docker.io/v1/"]],
  ["docker.io/team/app", ["https://index.docker.io/v1/"], ["https://index.docker.io/v1/"]],
  ["evil.example/reg.example/app", ["reg.example"], []],
])("selects the credentials for %s among %j", (image, patterns, expected) => {
  expect(found(image, keyringOf(...patterns))).toEqual(expected);
});

it("does not take long for a pattern with many wildcards", () => {
  const host = `${"a".repeat(60)}.example`;
  expect(found(`${host}/app`, keyringOf(`${"*a".repeat(30)}b.example`))).toEqual([]);
  expect(found(`${host}/app`, keyringOf(`${"*a".repeat(30)}.example`))).toHaveLength(1);
});

it("completes names of Docker Hub, and no others", () => {
  expect(imageAddress("python")).toMatchObject({ host: "docker.io", path: "library/python" });
  expect(imageAddress("team/app:1")).toMatchObject({ host: "docker.io", path: "team/app", tag: "1" });
  expect(imageAddress("index.docker.io/python")).toMatchObject({ host: "docker.io", path: "library/python" });
  expect(imageAddress("localhost/app")).toMatchObject({ host: "localhost", path: "app" });
  expect(imageAddress("reg.example:5000/a/b:2")).toMatchObject({ host: "reg.example:5000", path: "a/b", tag: "2" });
  expect(serverOf("docker.io")).toBe("registry-1.docker.io");
  expect(() => imageAddress("UPPER/../x")).toThrow("is not an image name");
});
