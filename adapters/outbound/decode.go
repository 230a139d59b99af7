package outbound

import (
	"bytes"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/cockroachdb/errors"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Decode gives the plain bytes of r. We ask every upstream for identity; some compress all the same. Their bytes pass
// to the client as they are, and this reads a copy for usage.
func (in *incoming) Decode(r io.Reader) (io.Reader, error) {
	switch enc := string(bytes.ToLower(bytes.TrimSpace(in.head.Peek("Content-Encoding")))); enc {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return &lazy{r: r, open: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }}, nil
	case "deflate":
		return &lazy{r: r, open: inflate}, nil
	case "br":
		return brotli.NewReader(r), nil
	case "zstd":
		return &lazy{r: r, open: func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(16<<20))
		}}, nil
	default:
		return nil, errors.Newf("content-encoding %q is not known", enc)
	}
}

// inflate takes both readings of "deflate": a zlib stream, as the standard says, and the bare one that some send.
func inflate(r io.Reader) (io.Reader, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	r = io.MultiReader(bytes.NewReader(head[:]), r)
	if head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// lazy opens a decoder at the first read, since opening reads.
type lazy struct {
	r    io.Reader
	open func(io.Reader) (io.Reader, error)
	d    io.Reader
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.d == nil {
		d, err := l.open(l.r)
		if err != nil {
			return 0, err
		}
		l.d = d
	}
	return l.d.Read(p)
}
