#!/bin/sh
# Makes docs/pictures/page.png: the top of the page of a run on this machine. Needs a release build and chromium.
# Give a saved document to draw that one instead: docs/pictures/make.sh run.json
set -eu
cd "$(dirname "$0")/../.."
corelane=${CORELANE:-target/release/corelane}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
document=${1:-$folder/run.json}
[ -f "$document" ] || "$corelane" lab scale udp --json "$document"
"$corelane" report show "$document" --html "$folder/page.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
  --window-size=1200,1560 --screenshot=docs/pictures/page.png "file://$folder/page.html" 2>/dev/null
