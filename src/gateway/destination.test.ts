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
  [{ host: "127.0.0.1:8080" }, undefined],
  [{ host: "sandbox.example.org" }, undefined],
  [{ host: "8000-a--b" }, undefined],
  [{}, undefined],
])("reads %j as %j", (headers, destination) => {
  expect(destinationOf(headers)).toEqual(destination);
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
  expect(() => destinationOf(headers)).toThrow(message);
});

it("returns a valid destination or undefined, or throws InvalidArgument, for arbitrary headers", () => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[\d]{0,6}-?[-A-Za-z0-9]{0,9}\.?[a-z]{0,3}$/));
  const headers = fc.record({ host: text, "e2b-sandbox-id": text, "e2b-sandbox-port": text }, { requiredKeys: [] });
  fc.assert(
    fc.property(headers, (given) => {
      try {
        const found = destinationOf(given);
        if (found === undefined) return;
        expect(found.sandboxId).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
        expect(found.port).toBeGreaterThan(0);
        expect(found.port).toBeLessThan(65_536);
      } catch (error) {
        expect(error).toBeInstanceOf(RametError);
        expect(error).toMatchObject({ code: "InvalidArgument" });
      }
    }),
  );
});
