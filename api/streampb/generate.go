// Package streampb is what goes over a stream of a sale: Go code for stream.proto, and
// the framing of its messages.
//
// After a change to stream.proto run go generate here. It needs protoc 3.21 or later
// and, on the PATH, the protoc-gen-go of the version that stream.pb.go names (go install
// google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11).
package streampb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative api/streampb/stream.proto
