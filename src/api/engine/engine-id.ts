/** What `engineId` returns. Apart from it, because the command line starts without zod. */
export const engineIdPattern = /^[0-9a-f]{12}$/;
