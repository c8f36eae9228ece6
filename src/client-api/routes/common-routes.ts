import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { type Method, type Route, routesFor } from "./route.ts";

const route = routesFor<unknown>();

/** Serves the OpenAPI document of a dialect. */
export function documentRoute(document: () => object): Route<unknown> {
  return route({
    method: "GET",
    path: "/openapi.json",
    summary: "Returns this document.",
    needs: "public",
    answers: { 200: z.looseObject({}) },
    handle: async (_, { reply }) => reply.send(document()),
  });
}

/**
 * A route of the original API that Ramet does not have. It answers clients with a key, so that a client without one learns nothing.
 * @param why what is not supported, and what to do instead
 */
export function unsupportedRoute(method: Method, path: string, why: string): Route<unknown> {
  return route({
    method,
    path,
    summary: "Not supported.",
    needs: [],
    unsupported: why,
    answers: {},
    handle: () => Promise.reject(new RametError("NotSupported", why)),
  });
}

/**
 * The id of a request that can be repeated, in the form of a UUID; undefined without a key of the client.
 * @param owner whose keys these are
 * @param given the header `Idempotency-Key`
 */
export function requestIdOf(owner: string, given: string | string[] | undefined): string | undefined {
  const key = [given].flat()[0];
  if (key === undefined || key === "") return undefined;
  const hex = createHash("sha256")
    .update(JSON.stringify([owner, key]))
    .digest("hex");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
}
