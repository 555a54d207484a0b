// Package ledgerpb is the stored form of every log: Go code for ledger.proto.
//
// After a change to ledger.proto run go generate here. It needs protoc 3.21 or
// later and, on the PATH, the protoc-gen-go of the version that ledger.pb.go
// names (go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11).
package ledgerpb

//go:generate protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative backends/ledger/ledgerpb/ledger.proto
