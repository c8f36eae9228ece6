import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { statusOf } from "../base/http.ts";
import { isResumeProof, resumeProofHeader } from "../cell/client/resume-proof.ts";
import type { Dialect } from "./server.ts";
import type { AutoResumes } from "./service/auto-resume.ts";
import { uidOf } from "./service/find-sandbox.ts";

export interface GatewayRoutesOptions {
  autoResumes: AutoResumes;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  clock: Clock;
}

/** The route by which gateways resume a sandbox for which traffic has arrived. Clients cannot use it. */
export function gatewayRoutes({ autoResumes, guestSecret, clock }: GatewayRoutesOptions): Dialect {
  return {
    register: (server) => {
      server.post("/internal/sandboxes/:uid/resume", async (request, reply) => {
        const { uid: given = "" } = request.params as { uid?: string };
        const uid = uidOf(given);
        const proof = [request.headers[resumeProofHeader]].flat()[0] ?? "";
        try {
          if (uid === undefined || !isResumeProof(proof, await guestSecret(), uid, clock)) throw notProven();
          return await reply.send({ resumed: await autoResumes.resume(uid) });
        } catch (error) {
          const { code, message, hint, retryable } = RametError.from(error);
          const status = statusOf(code);
          if (status >= 500) request.log.error({ id: request.id, err: error }, "a sandbox was not resumed for traffic");
          return reply.code(status).send({ code: status, reason: code, message, hint, retryable });
        }
      });
    },
  };
}

function notProven(): RametError {
  return new RametError("Unauthorized", "Only gateways can send this request");
}
