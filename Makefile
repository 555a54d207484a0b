# What a contributor and CI run. `make` alone lists the targets.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
CYCLONEDX = go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
CRANE = go run github.com/google/go-containerregistry/cmd/crane@v0.22.1

# Packages whose tests race goroutines or processes against each other: the
# race detector pays there. The rest is single-threaded and runs without, apart
# from docs, whose test waits for servers while others run. What few goroutines
# backends/ledger has race in the tests of those who use it: one that alters an export
# at every byte would take minutes with the detector.
RACED = $$(go list ./backends/... | grep -v /backends/ledger) ./rules/... ./executor/... ./cli/... ./planner/... ./services/... ./examples/... ./api/... ./docs/...

.PHONY: help build image push test lint soak mutants models bench bench-compare replicas fuzz-http generate services services-down

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./salectl
	go build -trimpath -o salectl .

# The same commit makes the same digests, with the same version of Go.
image: ## write a container image for amd64 and arm64 to .cache/image, an OCI layout; no container engine is needed
	for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -buildvcs=auto -ldflags '-s -w' -o .cache/linux/salectl-$$arch . && \
		$(CYCLONEDX) bin -json -noserial -notimestamp -output .cache/linux/salectl-$$arch.cdx.json .cache/linux/salectl-$$arch || exit 1; \
	done
	cd image && go run . -out ../.cache/image ../.cache/linux/salectl-amd64 ../.cache/linux/salectl-arm64

push: image ## push the image as IMAGE, such as registry.example.com/salectl:v1, with the rights of 'docker login'
	@[ -n "$(IMAGE)" ] || { echo "Say where to: make push IMAGE=registry.example.com/salectl:v1"; exit 2; }
	$(CRANE) push .cache/image "$(IMAGE)"

# With the race detector a program rests a second before it exits, and scripts run hundreds.
test: export GORACE = atexit_sleep_ms=0
# The tests start a Java some twenty times, each for seconds: what its second compiler
# would gain comes too late, and takes half of the processor time of an HBase's start.
# The cache of test results does not know of the salectl that testdata/openapi builds.
test: export JDK_JAVA_OPTIONS = -XX:TieredStopAtLevel=1
test: lint ## lint, then run every test; installs the servers that the tests start
	@go run ./services/run install || { [ "$$CI" != true ] && \
		echo "The tests that need what is missing will be skipped."; }
	go test -timeout 30m ./spec/... ./csvfile/... ./units/... ./report/... ./backends/ledger/... ./sim/... .
	go test -race -timeout 30m $(RACED)
	cd testdata/benchcompare && go test ./...
	cd testdata/peers && go test ./...
	cd testdata/openapi && go test -count=1 ./...
	cd testdata/kubernetes && go test -count=1 ./...

lint: ## formatting, go vet, staticcheck, a tidy go.mod
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	$(STATICCHECK) ./...
	cd examples/orders-postgres && go mod tidy -diff && go vet ./...
	cd testdata/peers && go mod tidy -diff && go vet ./...
	cd testdata/benchcompare && go mod tidy -diff && go vet ./...
	cd testdata/openapi && go mod tidy -diff && go vet ./...
	cd testdata/kubernetes && go mod tidy -diff && go vet ./...
	cd image && go mod tidy -diff && go vet ./...

SEEDS ?= 50000
FROM ?= 0

soak: ## run SEEDS simulated sales from seed FROM on, or from a fresh one
	go run ./sim/soak -seeds $(SEEDS) -from $(FROM)

mutants: ## look for a seed that finds each bug of testdata/mutants, and for what finds 100 random mutants
	go run ./sim/mutants
	go run ./sim/mutate -sample 100

models: ## explore the models of the protocols, also the large ones
	GOMAXPROCS=1 go run ./sim/models/run

bench: ## the figures of docs/benchmarks.md, each beside its raw figure, in one run
	go test -run '^$$' -bench . -benchmem -timeout 60m \
		./backends/ledger ./backends/embedded ./backends/redis ./backends/hbase ./executor ./executor/links ./executor/httpd ./rules ./draw
	go test -run '^$$' -bench Reveal -benchtime 1x -timeout 60m ./planner
	go test -run '^$$' -bench Large -benchtime 3x -timeout 60m ./cli
	cd testdata/peers && go run . && go run ./postgres && go run ./locks -each 2s -contest 8s && go run ./packets && \
		go run ./growth && go run ./growth -hbase -most 1000000 -rounds 5 && \
		go run ./callers -docs ../../docs && go run ./stages -docs ../../docs

ROUNDS ?= 15

bench-compare: ## measure the working tree and the commit BASE in turns, and fail if the working tree is slower beyond the noise
	@[ -n "$(BASE)" ] || { echo "Say which commit to compare with: make bench-compare BASE=HEAD"; exit 2; }
	cd testdata/benchcompare && go run . -base "$(BASE)" -rounds $(ROUNDS)

replicas: ## the figures of several processes of one sale; on a machine that does nothing else
	SALECTL_FIGURES=1 go test -run 'TestFigures|TestPause$$' -v -timeout 60m ./cli/replicas | grep -E 'figures_test|bare_test|rolling_test|kill_test|^ *---|failed'

FUZZ_SECONDS ?= 300

fuzz-http: ## send a server what api/openapi.yaml permits and what it forbids, for FUZZ_SECONDS (needs Python 3.10)
	testdata/openapi/fuzz/run $(FUZZ_SECONDS) .cache/fuzz-http

generate: ## regenerate docs/sale-file.md, the OpenAPI client of the tests, and the protobuf code (needs protoc and protoc-gen-go v1.36.11)
	go generate ./...
	cd testdata/openapi && go generate ./...

services: ## start three redis-servers and an HBase for the examples
	go run ./services/run up

services-down: ## stop them; their data stays
	go run ./services/run down
