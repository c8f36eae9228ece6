import { SignJWT } from "jose";
import { expect, it } from "vitest";
import { RametError } from "../../base/errors.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken, type CellKey } from "../client/cell-token.ts";
import { systemClock } from "../../base/clock.ts";
import { tokenVerifier } from "./token-verifier.ts";

const newKey = (): CellKey => cellKeyFromPem(newCellKeyPem());
const [controller, gateway, stranger] = [newKey(), newKey(), newKey()];
const keys = { publicKey: controller.publicKey, gatewayKey: gateway.publicKey };
const sandboxUid = "11111111-2222-4333-8444-555555555555";

async function verdict(key: CellKey, operation: string, asked = operation, of = keys as { publicKey: string }) {
  const authorization = `Bearer ${await signCellToken(key, { sandboxUid, operation })}`;
  const verified = tokenVerifier(of, sandboxUid).verify(authorization, asked);
  return verified.then(
    () => "passes",
    (error: unknown) => RametError.from(error).code,
  );
}

it("accepts a gateway's token for ports only", async () => {
  expect(await verdict(gateway, "ports")).toBe("passes");
  for (const operation of ["checkpoint", "stop", "state"]) {
    expect(await verdict(gateway, operation)).toBe("Forbidden");
    expect(await verdict(gateway, "*", operation)).toBe("Forbidden");
    expect(await verdict(gateway, "ports", operation)).toBe("Forbidden");
  }
});

it("accepts a controller's token for every operation, and rejects a forged one", async () => {
  expect(await verdict(controller, "checkpoint")).toBe("passes");
  expect(await verdict(controller, "ports")).toBe("passes");
  expect(await verdict(controller, "*", "stop")).toBe("passes");
  for (const { publicKey } of [controller, gateway]) {
    expect(await verdict({ ...stranger, publicKey }, "ports")).toBe("Unauthorized");
  }
});

it("rejects gateways if no gateway key is configured", async () => {
  expect(await verdict(gateway, "ports", "ports", { publicKey: controller.publicKey })).toBe("Unauthorized");
});

it("accepts a token once for an operation that changes the sandbox, and again for one that does not", async () => {
  const verifier = tokenVerifier(keys, sandboxUid);
  const once = `Bearer ${await signCellToken(controller, { sandboxUid, operation: "*" })}`;
  await verifier.verify(once, "stop");
  await expect(verifier.verify(once, "stop")).rejects.toMatchObject({ code: "Forbidden" });
  await expect(verifier.verify(once, "boot")).rejects.toMatchObject({ code: "Forbidden" });
  await verifier.verify(once, "state");
  await verifier.verify(once, "state");
});

it.each([
  ["controllers", () => newKey()],
  ["controllers that use the name of this cluster's key", () => ({ ...newKey(), publicKey: controller.publicKey })],
  ["gateways", () => newKey()],
  ["gateways that use the name of this cluster's key", () => ({ ...newKey(), publicKey: gateway.publicKey })],
])("rejects the %s of another cluster for every operation", async (_, keyOf) => {
  const other = keyOf();
  for (const operation of ["state", "loaded", "ports", "boot", "identity", "keys", "checkpoint", "swap", "stop"]) {
    expect(await verdict(other, operation)).toBe("Unauthorized");
    expect(await verdict(other, "*", operation)).toBe("Unauthorized");
  }
});

const seconds = Math.floor(Date.now() / 1000);

it.each([
  ["without the time of issue", "Unauthorized", { exp: seconds + 60, jti: "a" }],
  ["without an id", "Unauthorized", { exp: seconds + 60, iat: seconds }],
  ["with a life of an hour", "Unauthorized", { exp: seconds + 3600, iat: seconds, jti: "a" }],
  // A caller with the key can correct its clock, and must try again.
  ["that was issued ten minutes ago", "Unavailable", { exp: seconds + 60, iat: seconds - 600, jti: "a" }],
  ["that has expired", "Unavailable", { exp: seconds - 40, iat: seconds - 80, jti: "a" }],
  ["from the future", "Unavailable", { exp: seconds + 660, iat: seconds + 600, jti: "a" }],
])("rejects a token %s", async (_, code, claims) => {
  const token = await new SignJWT({ op: "stop", ...claims })
    .setProtectedHeader({ alg: "EdDSA", kid: controller.publicKey })
    .setAudience(sandboxUid)
    .sign(controller.privateKey);
  const verified = tokenVerifier(keys, sandboxUid).verify(`Bearer ${token}`, "stop");
  await expect(verified).rejects.toMatchObject({ code, retryable: code === "Unavailable" });
});

it("rejects a token of a stranger for its signature, whatever its times are", async () => {
  const late = { ...systemClock, now: () => new Date(Date.now() - 600_000) };
  const token = await signCellToken(
    { ...stranger, publicKey: controller.publicKey },
    { sandboxUid, operation: "stop" },
    late,
  );
  const verified = tokenVerifier(keys, sandboxUid).verify(`Bearer ${token}`, "stop");
  await expect(verified).rejects.toMatchObject({ code: "Unauthorized" });
});

it("accepts a token from a node whose clock is 20 seconds ahead", async () => {
  const ahead = { ...systemClock, now: () => new Date(Date.now() + 20_000) };
  const token = await signCellToken(controller, { sandboxUid, operation: "stop" }, ahead);
  await tokenVerifier(keys, sandboxUid).verify(`Bearer ${token}`, "stop");
});

it("accepts two keys of each power during a rotation, and forgets the previous ones", async () => {
  const verifier = tokenVerifier(keys, sandboxUid);
  const [nextController, nextGateway] = [newKey(), newKey()];
  const accepted = async (): Promise<string[]> => {
    const found: string[] = [];
    for (const [name, key] of Object.entries({ controller, nextController, gateway, nextGateway, stranger })) {
      const token = await signCellToken(key, { sandboxUid, operation: "ports" });
      await verifier.verify(`Bearer ${token}`, "ports").then(
        () => found.push(name),
        () => undefined,
      );
    }
    return found;
  };
  expect(await accepted()).toEqual(["controller", "gateway"]);
  const both = [gateway.publicKey, nextGateway.publicKey];
  verifier.replaceKeys({ controllers: [controller.publicKey, nextController.publicKey], gateways: both });
  expect(await accepted()).toEqual(["controller", "nextController", "gateway", "nextGateway"]);
  const checkpoint = await signCellToken(nextGateway, { sandboxUid, operation: "checkpoint" });
  await expect(verifier.verify(`Bearer ${checkpoint}`, "checkpoint")).rejects.toMatchObject({ code: "Forbidden" });
  verifier.replaceKeys({ controllers: [nextController.publicKey], gateways: [nextGateway.publicKey] });
  expect(await accepted()).toEqual(["nextController", "nextGateway"]);
});
