/**
 * Every code a person or a program can see, with what it means. Codes are stable: once released, one is never reused for
 * another meaning. `docs/errors.md` is generated from this table.
 */
export const errorCodes = {
  InvalidArgument: "A value that was given is not legal; the message names the field.",
  NotFound: "The named object, file or image does not exist.",
  AlreadyExists: "An object of that name exists and is a different one.",
  Conflict: "Somebody else changed the object, or another operation on it is under way; repeat when it has ended.",
  Unauthorized: "The caller did not prove who it is.",
  Forbidden: "The caller may not do this.",
  Timeout: "The other side did not answer in the time that was allowed.",
  Unavailable: "The other side cannot be reached or is starting; repeat later.",
  Canceled: "The operation was given up because the caller asked for it.",
  Internal: "Something happened that should not; the cause is in the log.",
  ToolMissing: "A program that is needed was found nowhere and could not be fetched or built.",
  HostUnsupported: "This machine lacks a kernel feature or a right that is needed.",
  ImageNotFound: "The node does not have the image and cannot get it.",
  TemplateMismatch:
    "The sandbox asks for something else than the checkpoint was taken from; the message names the field.",
  CheckpointNotReady: "The checkpoint has not succeeded (yet), so it cannot be cloned.",
  CheckpointLost: "The checkpoint's data is not in the store or does not have the digest that was recorded.",
  BackendMissing:
    "No installed backend can capture the requested contents, or restore a part of the checkpoint; the message names it.",
  NeedNotMet: "The node or its cell lacks something that the checkpoint needs; the message names it.",
  CheckpointTooNew: "The checkpoint was written by a newer version of Ramet than the one that reads it.",
  CheckpointTooLarge: "The checkpoint is larger than what the store takes; the source goes on.",
  StoreUnavailable: "The store cannot be reached or read: its folder is missing, or its bucket does not answer.",
  StoreReadOnly: "The store cannot be written.",
  StoreOfAnotherCluster: "The store is bound to another cluster; nothing of it was read, written or removed.",
  StoreFull: "The store has no room left.",
  GrantInvalid: "The grant is for another checkpoint, another use, or has expired.",
  EngineFailed: "gVisor refused or failed an operation; the message has its last words.",
  GuestUnreachable: "The guest inside the sandbox does not answer.",
  HandoverFailed: "A clone did not take its new identity in time and was never reachable.",
  SandboxNotReady: "The sandbox is not running and ready, and the operation needs that.",
  SandboxUnreachable: "The sandbox does not take connections at that port, or ended one before it had answered.",
  OutOfMemory: "The sandbox used more than its memory limit and was ended; its cell and its neighbours were not.",
  StepFailed:
    "A step of a named snapshot's recipe failed; the message has its number, how it ended and what it printed last.",
  SandboxLost: "The process that ran the sandbox ended without being asked to.",
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof errorCodes;
