package units

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"salectl/internal/files"
	"salectl/spec"
)

// ErrKey reports that bytes do not open: they were sealed under another key or for another
// context, or are damaged.
var ErrKey = errors.New("this key does not decrypt it: the key is wrong, or the data is damaged")

// MinSecret is the minimum length of a secret in bytes, before base64.
const MinSecret = 32

// Key encrypts units, or the secret of a draw. It is safe for concurrent use.
type Key struct {
	id     string
	digest []byte // key of digests
	aead   cipher.AEAD
}

// NewKey derives the key of units from a secret of MinSecret bytes or more.
func NewKey(secret []byte) (*Key, error) { return newKey(secret, "units") }

// NewDrawKey derives the key that encrypts the secret of a draw. From the same bytes NewKey
// derives another key.
func NewDrawKey(secret []byte) (*Key, error) { return newKey(secret, "draw") }

// newKey derives the key of a part of a sale file by HKDF-SHA256 without a salt. Its parameters
// must never change: sealed units could not be opened any more.
func newKey(secret []byte, part string) (*Key, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret of a key has %d bytes, and needs %d", len(secret), MinSecret)
	}
	var derived [3][]byte
	for i, more := range []string{"", " id", " digest"} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, secret, nil, "salectl "+part+" v1"+more, sha256.Size); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(derived[0])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Key{id: hex.EncodeToString(derived[1][:8]), digest: derived[2], aead: aead}, nil
}

// ID returns 16 hex digits that distinguish keys, and reveal nothing of the key.
func (k *Key) ID() string { return k.id }

// Seal encrypts plain with AES-256-GCM under a nonce of 12 bytes, which it reads from random and
// puts in front. The context is authenticated: bytes sealed for one context do not open for
// another. random must never return the same bytes twice.
func (k *Key) Seal(random io.Reader, context, plain []byte) ([]byte, error) {
	sealed := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	if _, err := io.ReadFull(random, sealed); err != nil {
		return nil, fmt.Errorf("nothing can be encrypted without randomness: %w", err)
	}
	return k.aead.Seal(sealed, sealed, plain, context), nil
}

// Open reverses Seal. It returns ErrKey for bytes that this key has not sealed for the
// context.
func (k *Key) Open(context, sealed []byte) ([]byte, error) {
	size := k.aead.NonceSize()
	if len(sealed) < size {
		return nil, ErrKey
	}
	plain, err := k.aead.Open(nil, sealed[:size], sealed[size:], context)
	if err != nil {
		return nil, ErrKey
	}
	return plain, nil
}

// maxKeyFile is the maximum size of a key file in bytes, above that of any key.
const maxKeyFile = 64 << 10

// keyOf describes a key that a sale file declares.
type keyOf struct {
	sale      string // the file, for problems
	part      string // of the document that the key is for: units, draw
	env, path string
}

func (k keyOf) remedy() string {
	without := "nobody can read the units any more"
	if k.part == "draw" {
		without = "the draw cannot be revealed"
	}
	return "Make one with openssl rand -base64 32, and keep it: without it " + without + "."
}

// DrawKey reads the key that encrypts the secret of a sale's draw; nil: the sale is not a draw.
// env is os.LookupEnv. The error is a *spec.Problem: the key is missing, or invalid.
func DrawKey(s spec.Sale, env func(string) (string, bool)) (*Key, error) {
	if s.Draw == nil {
		return nil, nil
	}
	return keyOf{sale: cmp.Or(s.File, "sale "+s.Name), part: "draw", env: s.Draw.KeyEnv, path: s.Draw.KeyFile}.read(env)
}

// ReadKey reads the key of units from a file. The error is a *spec.Problem.
func ReadKey(path string) (*Key, error) {
	return keyOf{sale: path, part: "units", path: path}.read(nil)
}

func (k keyOf) read(env func(string) (string, bool)) (*Key, error) {
	if k.env != "" {
		text, set := env(k.env)
		what := fmt.Sprintf("the environment variable %s, which %s.keyEnv names,", k.env, k.part)
		if !set {
			return nil, &spec.Problem{File: k.sale, Message: what + " is not set", Remedy: "Set it to the key. " + k.remedy()}
		}
		return k.parse(k.sale, what, text)
	}
	if k.path == "" {
		return nil, &spec.Problem{File: k.sale, Message: fmt.Sprintf("the key of its %s is in a file that only the sale file names", k.part),
			Remedy: "Name the sale file with -f."}
	}
	text, err := files.ReadSecret(k.path, maxKeyFile)
	exposed, is := errors.AsType[*files.ExposedError](err)
	switch {
	case is:
		return nil, &spec.Problem{File: k.path, Message: fmt.Sprintf("the key of the %s: everyone on this machine can read the file (mode %04o)", k.part, exposed.Mode.Perm()),
			Remedy: fmt.Sprintf("Run chmod o-rwx %s; or, where it comes from a volume of Kubernetes, set the volume's defaultMode: 0400.", k.path)}
	case err != nil:
		p := spec.Unreadable(k.path, err)
		p.Message = fmt.Sprintf("the key of the %s: %s", k.part, p.Message)
		return nil, p
	case len(text) > maxKeyFile:
		return nil, &spec.Problem{File: k.path, Message: "the file is too large for a key", Remedy: "Name the file with the key. " + k.remedy()}
	}
	return k.parse(k.path, "the file", string(text))
}

// parse parses a key in base64, padded or not. Its problems name the place of the key, what, and
// never contain the key.
func (k keyOf) parse(file, what, text string) (*Key, error) {
	encoded := strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		secret, err = base64.RawStdEncoding.DecodeString(encoded)
	}
	message := ""
	switch {
	case encoded == "":
		message = what + " is empty"
	case err != nil:
		message = what + " has no base64"
	case len(secret) < MinSecret:
		message = fmt.Sprintf("%s has a key of %d bytes; at least %d are required", what, len(secret), MinSecret)
	default:
		return newKey(secret, k.part)
	}
	return nil, &spec.Problem{File: file, Message: message, Remedy: k.remedy()}
}
