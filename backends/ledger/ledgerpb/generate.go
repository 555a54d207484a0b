// Package ledgerpb is the stored form of every log: Go code for ledger.proto.
//
// After a change to ledger.proto run go generate here. It needs protoc 3.21 or later and, on the
// PATH, protoc-gen-go (go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11) and
// protoc-gen-go-vtproto (go install github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.0).
// The methods MarshalVT, UnmarshalVT and SizeVT of the latter encode the same bytes as package
// proto in a fraction of its time. They do not check that strings are UTF-8.
package ledgerpb

//go:generate protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative --go-vtproto_out=../../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size backends/ledger/ledgerpb/ledger.proto
