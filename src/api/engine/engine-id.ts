/** Matches the ids of `engineId`. In a file of its own, because the command line starts without zod. */
export const engineIdPattern = /^[0-9a-f]{12}$/;
