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
