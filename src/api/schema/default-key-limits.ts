/** More than clients need that work, so one key cannot occupy the client API. */
export const defaultKeyLimits = { requestsPerSecond: 1_000, concurrentRequests: 1_000, bytesInFlight: "64Mi" } as const;
