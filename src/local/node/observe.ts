import { missingEntrypoint, startedNothing } from "../../api/pod/resolved-image.ts";
import type { CellState } from "../../api/wire/cell-api.ts";
import type { PodExit, PodProcess } from "./pod-process.ts";
import type { Observation } from "./pod-status.ts";

type Ended = Observation & { kind: "ended" };

/** Returns the observed state of a Pod's process. Undefined while it starts. */
export function observe({ record, directory, state, exit, verdict, condemned }: PodProcess): Observation | undefined {
  const { ip, startedAt } = record;
  if (exit === undefined)
    return state === undefined ? undefined : { kind: "running", ip, startedAt, cell: state, probes: verdict };
  const end =
    state === undefined || (exit.exitCode === cannotStart && state.phase === "preparing")
      ? neverListened(exit, directory.lastError())
      : endOf(state, exit, condemned);
  return { kind: "ended", ip, startedAt, finishedAt: exit.at.toISOString(), ...end };
}

/**
 * For how much longer a restore in place is not reported, in milliseconds. A kubelet does not report a short one either: it
 * marks a cell unready after its probe has failed three times, a second apart (src/api/pod/cell-container.ts). It also
 * leaves the CPU to the clone.
 */
export function unreportedMilliseconds({
  state,
  exit,
  restoringInPlaceMilliseconds = Infinity,
}: Pick<PodProcess, "state" | "exit" | "restoringInPlaceMilliseconds">): number {
  if (exit !== undefined || state?.phase === "failed") return 0;
  return Math.max(0, maxUnreportedMilliseconds - restoringInPlaceMilliseconds);
}

const maxUnreportedMilliseconds = 3_000;

type End = Pick<Ended, "exitCode" | "reason" | "message">;

/** Uses the cell's last state. If the process ended without a final one, the sandbox is lost. */
function endOf(state: CellState, exit: PodExit, condemned: string | undefined): End {
  if (condemned !== undefined) return endOfCondemned(state, exit, condemned);
  if (state.phase === "stopped") {
    const exitCode = state.exitCode ?? exit.exitCode ?? 0;
    return { exitCode, reason: exitCode === 0 ? "Completed" : "Error", message: state.message };
  }
  if (state.phase === "failed")
    return { exitCode: exit.exitCode ?? 70, reason: state.code ?? "Error", message: state.message };
  const how = exit.signal === undefined ? "ended" : `was killed (${exit.signal})`;
  const message = `the sandbox was lost: its cell ${how} while the sandbox was ${state.phase}`;
  return { exitCode: killed, reason: "SandboxLost", message };
}

/** The node has ended the Pod. It has failed, even if the entrypoint exits with 0 on SIGTERM. */
function endOfCondemned(state: CellState, exit: PodExit, why: string): End {
  const exitCode = state.exitCode || exit.exitCode || killed;
  if (!startedNothing(state)) return { exitCode, reason: "Error", message: why };
  return { exitCode, reason: missingEntrypoint.reason, message: `${why}; ${missingEntrypoint.cause}` };
}

/** Exit code of a cell that cannot start. A spare has a state before it has its setting, but has never listened. */
const cannotStart = 70;

/** 128 + SIGKILL, as in a shell. */
const killed = 137;

function neverListened(exit: PodExit, error: { code: string; message: string } | undefined): End {
  return {
    exitCode: exit.exitCode ?? killed,
    reason: error?.code ?? "StartError",
    message: error?.message ?? "the cell ended before it listened: see cell.log in the node's directory of the Pod",
  };
}
