import fc from "fast-check";
import { expect, it } from "vitest";
import { RametError } from "../base/errors.ts";
import { destinationOf } from "./destination.ts";

it.each([
  [{ host: "8000-default--dev.localhost:8080" }, { sandboxId: "default--dev", port: 8000 }],
  [{ host: "8000-DEFAULT--Dev.Sandboxes.example.org" }, { sandboxId: "default--dev", port: 8000 }],
  [
    { host: "49983-11111111-2222-4333-8444-555555555555.example.org" },
    { sandboxId: "11111111-2222-4333-8444-555555555555", port: 49983 },
  ],
  // Headers take precedence.
  [
    { host: "8000-a--b.example.org", "e2b-sandbox-id": "c--d", "e2b-sandbox-port": "1" },
    { sandboxId: "c--d", port: 1 },
  ],
  // Programs can have keys too, and the API can be at any host.
  [
    { host: "gateway.example.org", "e2b-sandbox-id": "c--d", "e2b-sandbox-port": "1", "x-api-key": "a" },
    { sandboxId: "c--d", port: 1 },
  ],
  [
    { host: "api.example.org", "e2b-sandbox-id": "c--d", "e2b-sandbox-port": "1" },
    { sandboxId: "c--d", port: 1 },
  ],
  [{ host: "api.example.org:8080", "e2b-sandbox-id": "c--d", "e2b-sandbox-port": "1", "x-api-key": "a" }, undefined],
  [{ host: "127.0.0.1:8080" }, undefined],
  [{ host: "sandbox.example.org" }, undefined],
  [{ host: "8000-a--b" }, undefined],
  [{}, undefined],
])("reads %j as %j", (headers, destination) => {
  expect(destinationOf({ url: "/a?b", headers })).toEqual(destination && { destination, url: "/a?b" });
});

it.each([
  ["/kruise/a--b/80/c/d?e=/f", "/c/d?e=/f"],
  ["/kruise/A--B/80", "/"],
  ["/kruise/a--b/80/", "/"],
  ["/kruise/a--b/80//x", "//x"],
  ["/kruise/a--b/80?q=1", "/?q=1"],
])("reads the path %j as %j of a sandbox port", (url, rest) => {
  const host = "gateway:8080";
  expect(destinationOf({ url, headers: { host } })).toEqual({
    destination: { sandboxId: "a--b", port: 80 },
    url: rest,
  });
  // A host or headers that name a sandbox leave the path to the program.
  expect(destinationOf({ url, headers: { host: "1-c--d.x" } })).toMatchObject({ destination: { port: 1 }, url });
  expect(destinationOf({ url, headers: { "e2b-sandbox-id": "c", "e2b-sandbox-port": "2" } })).toMatchObject({ url });
});

it("names no sandbox by other paths, and rejects what is no id or port in it", () => {
  const read = (url: string) => destinationOf({ url, headers: {} });
  for (const url of ["/", "/sandboxes", "/kruise/api/sandboxes", "/kruise/api/80", "/kruise/a--b", "/kruise/a--b/x/1"])
    expect([url, read(url)]).toEqual([url, undefined]);
  for (const url of ["/kruise/a--b/80x", "/KRUISE/a--b/80", "//kruise/a--b/80"]) expect(read(url)).toBeUndefined();
  expect(() => read("/kruise/a--b/0/")).toThrow('"0" is not a valid port');
  expect(() => read("/kruise/a--b/49982/")).toThrow("reserved for Ramet");
  expect(() => read("/kruise/%61--b/80")).toThrow("is not a valid sandbox id");
  expect(() => read("/kruise/../80/")).toThrow("is not a valid sandbox id");
});

it.each([
  [{ "e2b-sandbox-id": "a--b" }, "e2b-sandbox-port is missing: e2b-sandbox-id needs it"],
  [{ "e2b-sandbox-port": "80" }, "e2b-sandbox-id is missing: e2b-sandbox-port needs it"],
  [{ "e2b-sandbox-id": "../etc", "e2b-sandbox-port": "80" }, '"../etc" is not a valid sandbox id'],
  [{ "e2b-sandbox-id": "a--b", "e2b-sandbox-port": "0" }, '"0" is not a valid port'],
  [{ "e2b-sandbox-id": "a--b", "e2b-sandbox-port": "8e3" }, '"8e3" is not a valid port'],
  [{ host: "70000-a--b.example.org" }, '"70000" is not a valid port'],
  [{ host: "49982-a--b.example.org" }, "The port 49982 is reserved for Ramet"],
])("rejects %j", (headers, message) => {
  expect(() => destinationOf({ url: "/", headers })).toThrow(message);
});

it("returns a valid destination or undefined, or throws InvalidArgument, for arbitrary headers", () => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[\d]{0,6}-?[-A-Za-z0-9]{0,9}\.?[a-z]{0,3}$/));
  const headers = fc.record({ host: text, "e2b-sandbox-id": text, "e2b-sandbox-port": text }, { requiredKeys: [] });
  fc.assert(
    fc.property(
      headers,
      fc.oneof(
        fc.webPath(),
        text.map((part) => `/kruise/${part}/80`),
      ),
      (given, url) => {
        try {
          const found = destinationOf({ url, headers: given })?.destination;
          if (found === undefined) return;
          expect(found.sandboxId).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
          expect(found.port).toBeGreaterThan(0);
          expect(found.port).toBeLessThan(65_536);
        } catch (error) {
          expect(error).toBeInstanceOf(RametError);
          expect(error).toMatchObject({ code: "InvalidArgument" });
        }
      },
    ),
  );
});
