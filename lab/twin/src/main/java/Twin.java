import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * Serves mongo-java-server on the loopback address. The argument is the port, 0 for any free one; the first line
 * printed is "listening on PORT". Ends when its standard input does, so that it never outlives its starter.
 */
public final class Twin {
    /** Today's drivers refuse the wire version that the library reports, and ask it for nothing that is newer. */
    private static final MongoVersion VERSION = new MongoVersion() {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 13;
        }
    };

    private Twin() {}

    public static void main(String[] arguments) throws Exception {
        int port = arguments.length == 0 ? 0 : Integer.parseInt(arguments[0]);
        MongoServer server = new MongoServer(new MemoryBackend().version(VERSION));
        server.bind(new InetSocketAddress("127.0.0.1", port));
        System.out.println("listening on " + server.getLocalAddress().getPort());
        System.out.flush();
        while (System.in.read() >= 0) {}
        server.shutdownNow();
    }
}
