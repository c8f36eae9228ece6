/** The architecture of this machine, as Go, images and Kubernetes name it: `amd64`, `arm64`. */
export const goArchitecture = process.arch === "x64" ? "amd64" : process.arch;
