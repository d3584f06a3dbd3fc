import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Sends the statements of a file to a running Flink cluster and waits for its jobs:
 *
 * <pre>FlinkJob REST_PORT FILE</pre>
 *
 * <p>Statements end with a semicolon at the end of a line. SET 'key' = 'value' sets an option.
 */
public class FlinkJob {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.target", "remote");
        configuration.setString("rest.address", "localhost");
        configuration.setString("rest.port", arguments[0]);
        configuration.setString("restart-strategy.type", "none");
        TableEnvironment tables =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().withConfiguration(configuration).build());
        for (String statement : Files.readString(Path.of(arguments[1])).split(";\\s*\n")) {
            execute(tables, statement.strip());
        }
        System.exit(0);
    }

    private static void execute(TableEnvironment tables, String statement) throws Exception {
        if (statement.isEmpty()) {
            return;
        }
        if (statement.startsWith("SET ")) {
            String[] parts = statement.split("'");
            tables.getConfig().set(parts[1], parts[3]);
            return;
        }
        TableResult result = tables.executeSql(statement);
        if (statement.startsWith("INSERT")) {
            result.await();
        }
    }
}
