#!/usr/bin/env bash
# A short tour with a broker of its own: free ports, data in a temporary folder.
set -euo pipefail

folder=$(mktemp -d)
broker=
finish() {
    if [ -n "$broker" ]; then kill "$broker" 2>/dev/null || true; wait "$broker" || true; fi
    rm -rf "$folder"
}
trap finish EXIT

show() {
    printf '\n$ %s\n' "$1"
    eval "$1"
}

goqueue serve --data-dir "$folder/data" --kafka-port 0 --http-port 0 \
    --ready-file "$folder/ready" --set log.level=warning &
broker=$!
for _ in $(seq 100); do
    [ -e "$folder/ready" ] && break
    kill -0 "$broker" || exit 1
    sleep 0.1
done
field() { sed -E "s/.*\"$1\": \"([^\"]*)\".*/\1/" "$folder/ready"; }
GOQUEUE_BOOTSTRAP=$(field bootstrap_servers)
http=$(field http_url)
export GOQUEUE_BOOTSTRAP

show "goqueue topics create orders --partitions 3 --set retention.ms=3600000"
show "goqueue produce orders --key alice 'two coffees' 'one cake'"
show "printf 'bob:tea\ncarol:water\n' | goqueue produce orders --key-separator :"
if command -v curl >/dev/null; then
show "curl -s $http/topics/orders/messages -H 'content-type: application/json' \
-d '{\"key\": \"dave\", \"value\": {\"drink\": \"juice\"}}'"
echo
fi
show "goqueue consume orders --keys --offsets"
show "goqueue consume orders --since '5m ago' --limit 2 -o json"
show "goqueue topics describe orders"
show "goqueue topics delete orders --yes"
