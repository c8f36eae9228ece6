import { expect, it } from "vitest";
import { annotations } from "../../../api/names/labels.ts";
import { serviceAnnotations } from "./service-routes.ts";
import { Services } from "./schemas.ts";

function annotationsFor(...services: unknown[]) {
  return serviceAnnotations(Services.parse({ services }).services);
}

const web = { id: "web", port: 8000, ingress: { public: true } };
const plainRoute = { id: "all", path_prefix: "/", resume: false, auth: { mode: "none" }, cors: null };

it("opens the ports of public services, and keeps the names of all", () => {
  const api = { id: "api", port: 9000, ingress: { public: false, routes: [plainRoute] }, runtime: { type: "manual" } };
  const noted = annotationsFor(web, api);
  expect(noted[annotations.publicPorts]).toBe("8000");
  expect(JSON.parse(noted[annotations.clientServices] ?? "")).toEqual([web, api]);
  expect(annotationsFor()).toEqual({ [annotations.publicPorts]: null, [annotations.clientServices]: null });
});

it.each([
  ["a program", { ...web, runtime: { type: "cmd", command: ["serve"] } }, "NotSupported"],
  ["a health check", { ...web, health_check: { path: "/" } }, "NotSupported"],
  [
    "a part of the paths",
    { ...web, ingress: { public: true, routes: [{ ...plainRoute, path_prefix: "/api" }] } },
    "NotSupported",
  ],
  [
    "a resume by traffic",
    { ...web, ingress: { public: true, routes: [{ ...plainRoute, resume: true }] } },
    "NotSupported",
  ],
  [
    "a token",
    { ...web, ingress: { public: true, routes: [{ ...plainRoute, auth: { mode: "bearer" } }] } },
    "NotSupported",
  ],
  ["the port of the guest", { ...web, port: 49_983 }, "InvalidArgument"],
])("refuses %s", (_, service, code) => {
  expect(() => annotationsFor(service)).toThrow(expect.objectContaining({ code }));
});

it("refuses two services of one port", () => {
  expect(() => annotationsFor(web, { ...web, id: "other" })).toThrow("the same port");
});
