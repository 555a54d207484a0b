// Package ledgerpb is the stored form of every log: Go code for ledger.proto.
//
// After a change to ledger.proto run go generate here. It needs what package streampb needs. The
// code of protoc-gen-go-vtproto encodes a commit as proto.Marshal does, in less than half of its
// time, but does not check that texts are UTF-8.
package ledgerpb

//go:generate protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative --go-vtproto_out=../../.. --go-vtproto_opt=paths=source_relative,features=marshal+size backends/ledger/ledgerpb/ledger.proto
