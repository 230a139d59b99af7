package simulator

import (
	"bytes"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// encodings are the values of Behavior.Compress, also those of Content-Encoding.
var encodings = []string{"", "gzip", "deflate", "br", "zstd"}

// squeezer compresses one answer piece by piece. A nil squeezer passes everything as it is.
type squeezer struct {
	w interface {
		io.WriteCloser
		Flush() error
	}
	buf bytes.Buffer
}

func newSqueezer(encoding string) *squeezer {
	z := &squeezer{}
	switch encoding {
	case "gzip":
		z.w = gzip.NewWriter(&z.buf)
	case "deflate": // in HTTP that means the zlib format
		z.w = zlib.NewWriter(&z.buf)
	case "br":
		z.w = brotli.NewWriterLevel(&z.buf, 4)
	case "zstd": // the options are constant and valid, so no error; one level of concurrency starts no goroutine
		z.w, _ = zstd.NewWriter(&z.buf, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(64<<10))
	default:
		return nil
	}
	return z
}

// add compresses p and flushes, so that the client can decode all of it now. The result is valid until the next
// call. Writing to memory cannot fail.
func (z *squeezer) add(p []byte) []byte {
	if z == nil {
		return p
	}
	z.buf.Reset()
	z.w.Write(p)
	z.w.Flush()
	return z.buf.Bytes()
}

// end returns the trailer of the compressed form.
func (z *squeezer) end() []byte {
	if z == nil {
		return nil
	}
	z.buf.Reset()
	z.w.Close()
	return z.buf.Bytes()
}

// all compresses a whole body.
func (z *squeezer) all(p []byte) []byte {
	if z == nil {
		return p
	}
	z.w.Write(p)
	z.w.Close()
	return z.buf.Bytes()
}
