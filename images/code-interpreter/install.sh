#!/bin/sh
# Installs the code interpreter into the root file system that it runs in. Needs Debian's python3, a file of requirements, and a
# directory with its packages. With the packages of node/package.json, it also installs Node.js and its kernels; where R's IRkernel and
# Java are installed, their kernels. Uses no network.
#   sh install.sh SOURCE REQUIREMENTS PACKAGES [NODE_MODULES]
set -eu
source=$1
requirements=$2
packages=$3
modules=${4-}
target=/opt/code-interpreter

python3 -m venv --without-pip "$target"
# pip runs from its own package, which it also installs.
pip() { "$target/bin/python" "$(echo "$packages"/pip-*.whl)/pip" "$@"; }
pip install --isolated --quiet --no-index --find-links "$packages" --no-deps --require-hashes --no-cache-dir \
  --requirement "$requirements"

# Tests of packages are a fifth of the size.
find "$target"/lib/python3*/site-packages -type d -name tests -prune -exec rm -rf {} +
site=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -R "$source/code_interpreter" "$site/"
"$target/bin/python" -m compileall -q "$site/code_interpreter"
rm -rf "$target/share/jupyter/kernels"
mkdir -p "$target/share/jupyter"
cp -R "$source/kernels" "$target/share/jupyter/kernels"
cp "$source/serve.sh" "$target/bin/serve-code"

if [ -n "$modules" ]; then
  cp "$modules"/node-linux-*/bin/node "$target/bin/node"
  mkdir -p "$target/lib/node_modules"
  cp -R "$modules/npm" "$modules/acorn" "$target/lib/node_modules/"
  for each in npm npx; do ln -s "../lib/node_modules/npm/bin/$each-cli.js" "$target/bin/$each"; done
else
  rm -r "$target/share/jupyter/kernels/javascript" "$target/share/jupyter/kernels/typescript"
fi
# The variable NODE_OPTIONS of the image names it, also for a Node.js that users install.
mkdir -p "$target/lib/reseed"
gcc -shared -fPIC -O1 -o "$target/lib/reseed/reseed.node" "$source/node/reseed.c"
cp "$source/node/reseed.cjs" "$target/lib/reseed/"
command -v Rscript >/dev/null || rm -r "$target/share/jupyter/kernels/r"
if command -v java >/dev/null; then
  home=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
  # Without /proc, Java does not find its own libraries.
  LD_LIBRARY_PATH=$home/lib java -m jdk.compiler/com.sun.tools.javac.Main -Xlint:none -nowarn -d "$target/lib/java" \
    "$source/java/JavaKernel.java"
else
  rm -r "$target/share/jupyter/kernels/java"
fi
# `pip install` works for every user of the sandbox, and kernels find what it installs.
chmod -R a+rwX "$target"
# Commands of E2B's clients run in a login shell, which sets its own PATH.
mkdir -p /etc/profile.d
echo "PATH=$target/bin:\$PATH" >/etc/profile.d/code-interpreter.sh
echo "export NODE_OPTIONS=\${NODE_OPTIONS:---require=$target/lib/reseed/reseed.cjs}" >>/etc/profile.d/code-interpreter.sh

# It starts for each command. These two programs of Debian's profiles take longer than the shell.
sed -i 's/"$(id -u)"/"${EUID:-$(id -u)}"/' /etc/profile
[ ! -e /root/.profile ] || sed -i '/^mesg /d' /root/.profile

# The user of E2B's clients, without useradd: Debian's smallest root file system has none.
grep -q '^user:' /etc/passwd || {
  echo 'user:x:1000:1000::/home/user:/bin/bash' >>/etc/passwd
  echo 'user:x:1000:' >>/etc/group
}
mkdir -p /home/user
chown 1000:1000 /home/user 2>/dev/null || true
[ ! -d /etc/sudoers.d ] || {
  echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/user
  chmod 440 /etc/sudoers.d/user
}
