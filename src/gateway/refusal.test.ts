import { expect, it } from "vitest";
import { RametError } from "../base/errors.ts";
import { grpcStatus } from "./refusal.ts";

it("returns the status and the message of an error as gRPC headers", () => {
  const error = new RametError("SandboxNotReady", "The sandbox für is 50% ready", { hint: "Wait\nplease" });
  expect(grpcStatus(error)).toEqual([
    "content-type",
    "application/grpc",
    "grpc-status",
    "14",
    "grpc-message",
    "The sandbox f%C3%BCr is 50%25 ready. Wait%0Aplease [SandboxNotReady]",
  ]);
  expect(grpcStatus(new RametError("Conflict", "x"))[3]).toBe("13");
});
