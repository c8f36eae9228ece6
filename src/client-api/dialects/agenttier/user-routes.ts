import * as z from "zod";
import { type AgentTierRoute, route } from "./call.ts";

const User = z
  .object({
    sub: z.string().describe("The user of the key's service account."),
    name: z.string().describe("The API key, as `<namespace>/<name>`."),
    groups: z.array(z.string()),
    isAdmin: z.boolean(),
  })
  .meta({ id: "User" });

export const userRoutes: readonly AgentTierRoute[] = [
  route({
    method: "GET",
    path: "/user/me",
    summary: "Describes the caller.",
    needs: [],
    answers: { 200: User },
    handle: (_agentTier, { caller: { user, key } }) =>
      Promise.resolve({ sub: user.user, name: key, groups: [...(user.groups ?? [])], isAdmin: false }),
  }),
];
