import { expect, it } from "vitest";
import type { KubeObject } from "../../../src/kube/object.ts";
import { urlBelow } from "./gateway-url.ts";

const sandbox = (namespace: string, name: string) =>
  ({ metadata: { namespace, name, uid: "0b6f6d3a-8a0e-4c8e-9d52-2f6f2f4f7f10" } }) as KubeObject;
const at = (url: string, domain: string) => ({ url: new URL(url), domain });

it("is a host name of the gateways' domain, also locally", () => {
  const [cloud, local] = [at("https://example.org", "example.org"), at("http://127.0.0.1:8080", "localhost")];
  expect(urlBelow(cloud, sandbox("team-a", "dev"), 8000)).toBe("https://8000-team-a--dev.example.org");
  expect(urlBelow(local, sandbox("default", "dev"), 8000)).toBe("http://8000-default--dev.localhost:8080");
});

it("has the UID where a name has two meanings, or is longer than a label of DNS", () => {
  const domain = at("https://example.org", "example.org");
  const byUid = "https://8000-0b6f6d3a8a0e4c8e9d522f6f2f4f7f10.example.org";
  expect(urlBelow(domain, sandbox("a--b", "dev"), 8000)).toBe(byUid);
  expect(urlBelow(domain, sandbox("team-a", "d".repeat(60)), 8000)).toBe(byUid);
});
