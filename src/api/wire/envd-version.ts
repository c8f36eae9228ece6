/**
 * The version of E2B's envd whose API the guest serves. Clients use or avoid parts of the API by it. The guest has the same version
 * (native/guest/internal/envd/server.go).
 */
export const envdVersion = "0.6.13";
