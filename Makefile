# What a contributor and CI run. `make` alone lists the targets.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
CYCLONEDX = go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
CRANE = go run github.com/google/go-containerregistry/cmd/crane@v0.22.1

GOTESTSUM = go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg

# RACED matches the packages whose tests race goroutines or processes against
# each other: the race detector pays there. The other packages are single-threaded,
# like planner, or, like backends/ledger, are raced by the tests of the packages that use them.
# backends/quorum and executor/peers are among both: the simulated worlds of the one run in one
# goroutine, and the other has a test of 1,024 shards; they are not compiled with the detector.
RACED = $$(go list ./... | grep -E '^salectl/(api|backends|cli/replicas|executor|rules|internal/services)(/|$$)' | grep -v '^salectl/backends/ledger')
PLAIN = $$(go list ./... | grep -vE '^salectl/(api|backends|cli|docs|examples|executor|rules|internal/services)(/|$$)'; go list ./backends/ledger/... ./backends/quorum ./executor/peers)

# SERVED are the packages whose tests run salectl hundreds of times, beside real servers.
# With the race detector each run takes four times the processor time, nearly all of it to
# start. What races there is raced in executor and cli/replicas, and by RACED_CLI: the tests
# of cli in which processes serve, watch and rehearse.
SERVED = ./cli ./docs ./examples/...
RACED_CLI = TestRounds$$|TestPaymentsSurviveKills|Serve|TestScripts$$/^(serve_|several|status_watch|rehearse)

# PROCESSES are the packages whose tests start processes.
PROCESSES = $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -E 'salectl/internal/services[] ]' | cut -d' ' -f1)

# DRAWN are the packages with property tests, which draw the same inputs in each run of `make test`.
DRAWN = $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep salectl/internal/rapidseed | cut -d' ' -f1)

# MODULES are the modules of this repository beside its own; TESTED have tests of their own.
MODULES = examples/orders-postgres testdata/peers testdata/benchcompare testdata/openapi testdata/kubernetes internal/image
TESTED = testdata/benchcompare testdata/peers testdata/openapi testdata/kubernetes

# Two clones of one commit share the build cache: no object file has the path of its clone.
export GOFLAGS := $(GOFLAGS) -trimpath

.PHONY: help build image push test test-plain test-raced test-served quick stress nightly lint soak mutants models bench bench-compare replicas fuzz-http generate openapi-clients services services-down

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
	cd internal/image && go run . -out ../../.cache/image ../../.cache/linux/salectl-amd64 ../../.cache/linux/salectl-arm64

push: image ## push the image as IMAGE, such as registry.example.com/salectl:v1, with the rights of 'docker login'
	@[ -n "$(IMAGE)" ] || { echo "Say where to: make push IMAGE=registry.example.com/salectl:v1"; exit 2; }
	$(CRANE) push .cache/image "$(IMAGE)"

# With the race detector a program rests a second before it exits, and scripts run hundreds.
test stress: export GORACE = atexit_sleep_ms=0
# The tests, and what Go builds for them, keep their files in memory where there are 8 GiB for it:
# servers that sync a file on a busy disk answer too late for the tests, and the programs under test.
# Go's testing takes GOTMPDIR before TMPDIR.
ifeq ($(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -ge 8388608 2>/dev/null && \
	! grep -q '^[^ ]* /dev/shm .*noexec' /proc/mounts && echo yes),yes)
test stress: export GOTMPDIR = /dev/shm
test stress: export TMPDIR = /dev/shm
endif
# The tests start a Java some twenty times, each for seconds: its second compiler
# would take half of the processor time of an HBase's start, and the threads of its
# collector some of the rest.
test stress: export JDK_JAVA_OPTIONS = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# Most raced tests wait for processes. The tests that compute run beside them, at a lower priority.
test: lint ## lint, then run every test; installs the servers that the tests start
	@go run ./internal/services/run install || { [ "$$CI" != true ] && \
		echo "The tests that need what is missing will be skipped."; }
	@mkdir -p .cache/tests && rm -f .cache/tests/*
	@nice $(MAKE) --no-print-directory test-plain & plain=$$!; \
		$(MAKE) -k --no-print-directory test-raced test-served; raced=$$?; wait $$plain && exit $$raced
	@echo "The ten slowest tests:"
	@cat .cache/tests/*.json | go run gotest.tools/gotestsum@v1.13.0 tool slowest --num 10

test-raced:
	$(GOTESTSUM) --jsonfile .cache/tests/raced.json -- -race -vet=off -ldflags=-w -timeout 30m -p 3 $(RACED)
	$(GOTESTSUM) --jsonfile .cache/tests/raced-cli.json -- -race -vet=off -ldflags=-w -timeout 30m -run '$(RACED_CLI)' ./cli

test-served:
	$(GOTESTSUM) --jsonfile .cache/tests/served.json -- -vet=off -ldflags=-w -timeout 30m -p 3 $(SERVED)

# The cache of test results does not know of the salectl that testdata/openapi builds.
test-plain:
	$(GOTESTSUM) --jsonfile .cache/tests/plain.json -- -vet=off -ldflags=-w -timeout 30m -p 1 $(PLAIN)
	@for dir in $(TESTED); do \
		echo "$$dir:" && (cd $$dir && $(GOTESTSUM) --jsonfile "$(CURDIR)/.cache/tests/$$(basename $$dir).json" -- -vet=off -count=1 ./...) || exit 1; \
	done

# Some packages wait for timers: four at a time share two processors. Without debug information (-w) the linker takes two thirds of the time; stack traces do not need it.
quick: ## the tests that need nothing but Go and take seconds; for working
	go test -short -vet=off -ldflags=-w -p 4 $(PLAIN)

STRESS ?= 10
LOAD ?= 8

# Without the race detector, whose slowness hides what a busy machine shows.
# Two packages run at a time: four would start ten servers at once, and no HBase would be ready within minutes.
stress: ## run the tests that start processes STRESS times, beside LOAD busy loops
	@mkdir -p .cache/stress; go run ./internal/services/run install
	@loops=; for i in $$(seq $(LOAD)); do timeout 12h sh -c 'while :; do :; done' & loops="$$loops $$!"; done; \
		trap "kill $$loops 2>/dev/null" EXIT; failed=0; \
		$(GOTESTSUM) --jsonfile .cache/stress/salectl.json -- -vet=off -count=$(STRESS) -timeout 12h -p 2 $(PROCESSES) || failed=1; \
		for dir in $(TESTED); do \
			(cd $$dir && $(GOTESTSUM) --jsonfile "$(CURDIR)/.cache/stress/$$(basename $$dir).json" -- -vet=off -count=$(STRESS) -timeout 12h ./...) || failed=1; \
		done; exit $$failed

nightly: soak mutants models ## what takes hours: fresh seeds, the planted bugs, a sample of mutants, the large models
	SALECTL_TEST_ROUNDS=100 go test ./cli -run TestRounds -timeout 2h
	SALECTL_TEST_FRESH=1 go test -timeout 2h $(DRAWN) -rapid.checks 2000

# The client that testdata/openapi tests is generated and not committed.
CLIENT = testdata/openapi/client/client.go
$(CLIENT): api/openapi.yaml testdata/openapi/client/config.yaml testdata/openapi/go.mod
	cd testdata/openapi && go generate ./client

lint test-plain stress: $(CLIENT)

lint: ## formatting, go vet, staticcheck, a tidy go.mod
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	go mod tidy -diff
	go vet ./...
	$(STATICCHECK) ./...
	for dir in $(MODULES); do (cd $$dir && go mod tidy -diff && go vet ./...) || exit 1; done

SEEDS ?= 50000
FROM ?= 0

soak: ## run SEEDS simulated sales from seed FROM on, or from a fresh one
	go run ./sim/soak -seeds $(SEEDS) -from $(FROM)

mutants: ## look for a seed that finds each bug of testdata/mutants, and for what finds 100 random mutants
	go run ./sim/mutants -check
	go run ./sim/mutants
	go run ./sim/mutate -sample 100

models: ## explore the models of the protocols, also the large ones
	GOMAXPROCS=1 go run ./sim/models/run

bench: ## the figures of docs/benchmarks.md, each beside its raw figure, in one run
	go test -run '^$$' -bench . -benchmem -timeout 60m \
		./backends/ledger ./backends/embedded ./backends/redis ./backends/hbase ./executor ./executor/peers ./executor/httpd ./rules ./draw
	go test -run '^$$' -bench Reveal -benchtime 1x -timeout 60m ./planner/apply
	go test -run '^$$' -bench Large -benchtime 3x -timeout 60m ./cli
	cd testdata/peers && go run . && go run ./postgres && go run ./locks -each 2s -contest 8s && go run ./packets && \
		go run ./growth && go run ./growth -hbase -most 1000000 -rounds 5 && \
		go run ./callers -docs ../../docs && go run ./stages -page stages.md

ROUNDS ?= 15

bench-compare: ## measure the working tree and the commit BASE in turns, and fail if the working tree is slower beyond the noise
	@[ -n "$(BASE)" ] || { echo "Say which commit to compare with: make bench-compare BASE=HEAD"; exit 2; }
	cd testdata/benchcompare && go run . -base "$(BASE)" -rounds $(ROUNDS)

replicas: ## the figures of several processes of one sale; on a machine that does nothing else
	SALECTL_FIGURES=1 go test -run 'TestFigures|TestPause$$' -v -timeout 60m ./cli/replicas | grep -E 'figures_test|bare_test|rolling_test|kill_test|^ *---|failed'

FUZZ_SECONDS ?= 300

fuzz-http: ## send a server what api/openapi.yaml permits and what it forbids, for FUZZ_SECONDS (needs Python 3.10)
	testdata/openapi/fuzz/run $(FUZZ_SECONDS) .cache/fuzz-http

generate: ## regenerate docs/sale-file.md and the protobuf code (needs protoc, protoc-gen-go v1.36.11 and protoc-gen-go-vtproto v0.6.0)
	go generate ./...

openapi-clients: ## generate clients from the OpenAPI document with three generators, and sell with each (needs python3, npm and java)
	set -e; d=$$(mktemp -d); trap 'rm -rf '$$d EXIT; python3 -m venv $$d/venv; \
	$$d/venv/bin/pip -q install openapi-python-client==0.29.1 openapi-generator-cli==7.26.0 httpx attrs pydantic python-dateutil 'urllib3>=2.7,<3'; \
	npm --prefix $$d install --silent openapi-typescript@7.13.0 openapi-fetch typescript@5 @types/node@20; \
	cd testdata/openapi; SALECTL_GENERATORS=$$d go test -run TestGenerators -count=1 -v .

services: ## start three redis-servers and an HBase for the examples
	go run ./internal/services/run up

services-down: ## stop them; their data stays
	go run ./internal/services/run down
