import { expect, it } from "vitest";
import { validateClaimRequest } from "../../operations/claim/request.ts";
import { annotations } from "../names/labels.ts";
import { requestedEnvironment, type RequestSeal } from "../names/init-request.ts";
import { parsePodTemplate } from "./pod-template.ts";

const seal: RequestSeal = { seal: (_, request) => request, open: (_, sealed) => sealed };

it.each([
  ["", "a", "is not a valid variable name"],
  ["A=B", "a", "is not a valid variable name"],
  ["X", "a\0b", "the value of X contains a NUL byte"],
  ["BIG", "x".repeat(131_068), "BIG has 131071 bytes with its value; 131070 are the most"],
])("refuses a variable that no process can have: %j", (name, value, message) => {
  const env = [{ name, value }];
  expect(() => parsePodTemplate({ spec: { containers: [{ name: "main", image: "a", env }] } })).toThrow(
    name === "" ? "env" : message,
  );
  expect(() => {
    validateClaimRequest({ environment: { [name]: value } });
  }).toThrow(`envVars: ${name === "" ? '"" ' : ""}${name === "A=B" ? '"A=B" ' : ""}${message}`);
  const request = JSON.stringify({ envVars: { [name]: value } });
  const metadata = { namespace: "a", annotations: { [annotations.initRuntimeRequest]: request } };
  expect(() => requestedEnvironment({ metadata }, seal)).toThrow(message);
});

it("accepts any other name and value", () => {
  const env = Object.entries({ "x-y.z": "v", "1A": "", É: "é\n", BIG: "x".repeat(131_067) });
  const environment = Object.fromEntries(env);
  expect(() => {
    validateClaimRequest({ environment });
  }).not.toThrow();
  const containers = [{ name: "main", image: "a", env: env.map(([name, value]) => ({ name, value })) }];
  expect(parsePodTemplate({ spec: { containers } }).spec.containers[0]?.env).toHaveLength(4);
});
