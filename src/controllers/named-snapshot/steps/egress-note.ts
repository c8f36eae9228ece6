import type { CellPodOptions } from "../../../api/cell/cell-pod.ts";
import { lastLines } from "./step-outcome.ts";

/** What sandboxes may reach; absent: all but what is refused to each of them. */
export type Egress = CellPodOptions["egress"];

/**
 * That egress is denied, where what a failed command printed last is how programs tell of a refused connection or name.
 * Which one it was only the sandbox's link knows, so this says what is denied, and not that it was that.
 */
export function egressNote(log: string, egress: Egress): string | undefined {
  const sign = signs.find(({ words }) => words.test(lastLines(log)));
  const denied = sign && deniedTo(egress, sign.kind);
  if (denied === undefined) return undefined;
  return `egress is denied to sandboxes${denied}, and what it printed speaks of ${sign?.what}`;
}

const signs = [
  {
    kind: "connection",
    words: /reset by peer|ECONNRESET|Connection (was )?(reset|aborted)/i,
    what: "a connection that was cut",
  },
  {
    kind: "name",
    words: /name resolution|could not resolve|name or service not known|ENOTFOUND|EAI_AGAIN|bad address/i,
    what: "a name that was not found",
  },
] as const;

function deniedTo(egress: Egress, kind: (typeof signs)[number]["kind"]): string | undefined {
  const { default: fallback = "allow", allow = [], deny = [] } = egress ?? {};
  if (fallback === "deny") return allow.length === 0 ? "" : ` except to ${allow.join(", ")}`;
  // Without a rule every name may be asked for.
  if (kind === "name" && deny.length === 0) return undefined;
  return ` for link-local, node and cluster addresses${deny.length === 0 ? "" : ` and for ${deny.join(", ")}`}`;
}
