# Runs IRkernel. It separates the path of a socket and its number by a colon, and Jupyter by a hyphen.
file <- commandArgs(trailingOnly = TRUE)[[1]]
connection <- jsonlite::fromJSON(file)
for (name in c("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")) {
  number <- connection[[name]]
  file.symlink(paste0(connection$ip, ":", number), paste0(connection$ip, "-", number))
}
IRkernel::main(file)
